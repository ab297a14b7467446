package main

import (
	"os"
	"strings"
	"testing"
)

func TestMistakesAreFound(t *testing.T) {
	text, err := os.ReadFile("../dfsbench.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkDashboard(text); err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []struct{ from, to, message string }{
		{`"graphTooltip": 1`, `"graphToolTip": 1`, "unexpected field 'graphToolTip'"},
		{`"graphMode": "none"`, `"graphMode": 7`, "panels[1].options.graphMode"},
		{`"calcs": []`, `"calks": []`, "unexpected field 'calks'"},
		{`"refId": "A"`, `"refID": "A"`, "unexpected field 'refID'"},
		{`"panels": [`, `"panes": [`, "unexpected field 'panes'"},
	} {
		changed := strings.Replace(string(text), mistake.from, mistake.to, 1)
		if changed == string(text) {
			t.Fatalf("the dashboard has no %s", mistake.from)
		}
		_, err := checkDashboard([]byte(changed))
		if err == nil || !strings.Contains(err.Error(), mistake.message) {
			t.Errorf("%s: %v", mistake.to, err)
		}
	}
}
