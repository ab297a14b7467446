#!/bin/sh
# The same I/O in several tools, in turn: sh same-io.sh DIRECTORY [ROUNDS [MIB]]
#
# Each round writes a new file and reads it back with each tool, in another order. Prints the median
# and the range of the rates that the tools report themselves, in MB/s. docs/why-tools-disagree.md
# explains the options. Tools that are not installed are left out.
set -eu
export LC_ALL=C
dir=${1:?name a directory} rounds=${2:-5} mib=${3:-256}
work=$(mktemp -d "$dir/same-io.XXXXXX")
lists=$(mktemp -d)
trap 'rm -rf "$work" "$lists"' EXIT
trap 'exit 1' HUP INT TERM
file=$work/f

# New bytes for dd, so that it doesn't wait for /dev/urandom.
head -c 1048576 /dev/urandom >"$lists/mib"
random() { i=0; while [ $i -lt "$mib" ]; do cat "$lists/mib"; i=$((i + 1)); done; }
# Drops the file from this host's cache.
drop() { dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; }
note() {
    [ -n "$3" ] || { echo "$1 printed no rate of its $2" >&2; exit 1; }
    echo "$3" >>"$lists/$1.$2"
}

# Terse output has KiB/s: the 7th field for reads, the 48th for writes.
fio_pass() {
    fio --name=f --filename="$file" --bs=1m --size="${mib}m" --ioengine=psync --output-format=terse \
        --terse-version=3 "$@"
}
run_fio() {
    note fio write "$(fio_pass --rw=write --end_fsync=1 --fallocate=none --refill_buffers |
        awk -F';' '{ print $48 * 1.024e-3 }')"
    note fio read "$(fio_pass --rw=read --fadvise_hint=0 | awk -F';' '{ print $7 * 1.024e-3 }')"
}

# Of both lines with a rate in MiB/s, the first is that of the only repetition.
ior_pass() {
    ior -a POSIX -k -t 1m -b "${mib}m" -o "$file" "$2" $3 |
        awk -v pass="$1" '$1 == pass && !n++ { print $2 * 1.048576 }'
}
run_ior() {
    note ior write "$(ior_pass write -w -e)"
    drop
    note ior read "$(ior_pass read -r '')"
}

dd_pass() { dd bs=1M "$@" 2>&1 | awk '/copied/ { print $1 / $(NF - 3) / 1e6 }'; }
run_dd() {
    random >"$lists/random"
    note dd write "$(dd_pass if="$lists/random" of="$file" conv=fsync)"
    rm "$lists/random"
    drop
    note dd read "$(dd_pass if="$file" of=/dev/null)"
}

run_dfsbench() {
    dfsbench run "$work" --workload stream --file-size "${mib}MiB" --trials 1 --interference keep \
        --quiet --results "$lists/results.db" --format csv |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            { print $column["pass"], $column["rate_bytes_per_s"] / 1e6 }' >"$lists/passes"
    while read -r pass rate; do note dfsbench "$pass" "$rate"; done <"$lists/passes"
}

tools=
for tool in fio ior dd dfsbench; do
    if command -v $tool >/dev/null; then tools="$tools $tool"; else echo "$tool: not found" >&2; fi
done
round=0
while [ $round -lt "$rounds" ]; do
    for tool in $tools; do
        run_$tool
        rm -f "$file"
    done
    # The first one is the last of the next round.
    set -- $tools
    first=$1
    shift
    tools="$* $first"
    round=$((round + 1))
done

echo '| tool | write | read |'
echo '|---|---|---|'
for tool in $(echo "$tools" | tr ' ' '\n' | sort); do
    echo "| $tool | $(for pass in write read; do
        sort -n "$lists/$tool.$pass" | awk '{ a[NR] = $1 } END {
            m = (a[int((NR + 1) / 2)] + a[int(NR / 2) + 1]) / 2
            printf "%.0f (%.0f to %.0f) | ", m, a[1], a[NR] }'
    done)"
done
