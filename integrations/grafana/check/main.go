// Checks a dashboard against the schema that Grafana publishes as types: every member must be one
// that the schema has, of its type and within its limits. Options of panels and queries are checked
// by the schema of their plugin.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DASHBOARD.json")
		os.Exit(2)
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	panels, err := checkDashboard(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d panels, each as the schema has it\n", os.Args[1], panels)
}

// checkDashboard returns the number of panels, or all that is wrong.
func checkDashboard(text []byte) (int, error) {
	plugins.RegisterDefaultPlugins()
	var read dashboard.Dashboard
	for _, err := range []error{read.UnmarshalJSONStrict(text), read.Validate()} {
		// Both return an empty list of errors where there are none, which is not nil.
		if err != nil && err.Error() != "" {
			return 0, err
		}
	}
	if len(read.Panels) == 0 {
		return 0, errors.New("the dashboard has no panels")
	}
	return len(read.Panels), nil
}
