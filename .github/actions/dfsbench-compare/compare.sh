#!/usr/bin/env bash
# Measures BEFORE and AFTER in one campaign with alternating trials, and compares them. Reads the
# inputs of action.yml from the environment; exit code 1 if a bound is exceeded.
set -euo pipefail

folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/dfsbench-compare-XXXXXX")
results="$folder/dfsbench.db"
plan=${PLAN:-}

target() { # NAME ADDRESS
  case "$2" in
    "") echo "::error::the input $1 is empty" >&2; exit 2 ;;
    nfs://*) key=url ;;
    *) key=path ;;
  esac
  printf '\n[[target]]\nname = "%s"\n%s = "%s"\n' "$1" "$key" "$2"
}

if [ -z "$plan" ]; then
  plan="$folder/compare.toml"
  {
    printf 'name = "compare"\ntrials = %s\nwarmup_trials = 1\n' "${TRIALS:-10}"
    target before "${BEFORE:-}"
    target after "${AFTER:-}"
    for kind in ${WORKLOADS:-stream mixed}; do
      printf '\n[[workload]]\nkind = "%s"\n' "$kind"
    done
  } > "$plan"
fi

# ARGUMENTS is split into words like in a shell, but nothing in it is expanded.
read -r -a arguments <<< "${ARGUMENTS:-}"
code=0
dfsbench run "$plan" --results "$results" "${arguments[@]}" || code=$?
# Exit code 4 means a campaign with invalid rows; the comparison decides which of them matter.
if [ "$code" != 0 ] && [ "$code" != 4 ]; then
  echo "::error::dfsbench run ended with exit code $code"
  exit "$code"
fi

bounds=(--max-loss "${MAX_LOSS:-5%}" --inconclusive fail)
if [ -n "${MAX_SLOWDOWN:-}" ]; then
  bounds+=(--max-slowdown "$MAX_SLOWDOWN")
fi
sides=(last --results "$results" --where target=before --where target=after)
code=0
dfsbench compare "${sides[@]}" "${bounds[@]}" --output "$folder/compare.txt" || code=$?
if [ -f "$folder/compare.txt" ]; then cat "$folder/compare.txt"; fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  dfsbench compare "${sides[@]}" "${bounds[@]}" --format markdown >> "$GITHUB_STEP_SUMMARY" || true
fi

# Fail if a side can't be measured: more trials would not help.
if [ "$code" = 4 ] && grep -q '^Not compared' "$folder/compare.txt"; then
  echo "::error::a part was not measured on both sides (see the comparison)"
  exit 4
fi
case "$code" in
  0) outcome=kept ;;
  1) outcome=exceeded ;;
  4) outcome=inconclusive ;;
  *) echo "::error::dfsbench compare ended with exit code $code"; exit "$code" ;;
esac
{
  echo "outcome=$outcome"
  echo "results=$results"
} >> "${GITHUB_OUTPUT:-/dev/null}"
echo "dfsbench-compare: $outcome"
case "$outcome" in
  exceeded) echo "::error::it became slower by more than ${MAX_LOSS:-5%} (see the comparison)"; exit 1 ;;
  inconclusive)
    echo "::warning::it is not certain whether the bound is kept: more trials would show it"
    if [ "${INCONCLUSIVE:-ok}" = fail ]; then exit 4; fi
    ;;
esac
