#!/bin/sh
# ringtree-plan: golden text, a drawing that is well formed, exit codes, sentences. $1: the program.
plan=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# prints WORDS... < expected
prints() {
    cat >"$work/expected"
    "$plan" "$@" >"$work/got" 2>&1 || fail "ringtree-plan $* ended with $?"
    diff -u "$work/expected" "$work/got" >&2 || fail "ringtree-plan $* printed something else"
}

# refuses STATUS SENTENCE WORDS...
refuses() {
    status=$1 sentence=$2
    shift 2
    "$plan" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got -eq "$status" ] || fail "ringtree-plan $* ended with $got, not $status"
    grep -q -- "$sentence" "$work/err" || fail "ringtree-plan $* said: $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" -le 2 ] || fail "ringtree-plan $* says more than a sentence"
}

prints all_reduce ring -n 3 -r 1 <<'END'
all_reduce ring: 3 ranks, 3 chunks, 1 lane, at least 2 slots per link
rank 1
    0  send INPUT[0] to 2
    1  receive from 0, add INPUT[2], send to 2
    2  receive from 0, add INPUT[1], keep as OUTPUT[1], final, send to 2
    3  receive from 0, keep as OUTPUT[0], send to 2
    4  receive from 0, keep as OUTPUT[2]
END
prints all_reduce tree -n 5 -r 3 <<'END'
all_reduce tree: 5 ranks, 2 chunks, 4 lanes, at least 1 slot per link
rank 3, lane 0
    0  receive from 1 and 4, add INPUT[0], keep as OUTPUT[0], final
rank 3, lane 1
    0  wait for lane 0, send OUTPUT[0] to 1 and 4
rank 3, lane 2
    0  send INPUT[1] to 2
rank 3, lane 3
    0  receive from 2, keep as OUTPUT[1]
END
prints gather binomial -n 4 --root 1 <<'END'
gather binomial: 4 ranks, root 1, 4 chunks, 1 lane, at least 1 slot per link
rank 0
    0  send INPUT[0] to 3
rank 1
    0  copy INPUT[0] to OUTPUT[1]
    1  receive from 2, keep as OUTPUT[2]
    2  receive from 3, keep as OUTPUT[3..0]
rank 2
    0  send INPUT[0] to 1
rank 3
    0  copy INPUT[0] to SCRATCH[0]
    1  receive from 0, keep as SCRATCH[1]
    2  send SCRATCH[0..1] to 1
END
prints reduce_scatter bruck -n 1 <<'END'
reduce_scatter bruck: 1 rank, 1 chunk, 1 lane, at least 1 slot per link
rank 0
    0  copy INPUT[0] to OUTPUT[0], final
END
prints all_to_all pairwise -n 3 -r 0 <<'END'
all_to_all pairwise: 3 ranks, 3 chunks, 1 lane, at least 1 slot per link
rank 0
    0  copy INPUT[0] to OUTPUT[0]
    1  nothing
    2  send INPUT[1] to 1 (copied when in place)
    3  receive from 1, keep as OUTPUT[1]
    4  send INPUT[2] to 2 (copied when in place)
    5  receive from 2, keep as OUTPUT[2]
END

"$plan" --help | grep -q '^Examples:' || fail "--help has no examples"
"$plan" --help | grep -q '^Exit status:' || fail "--help has no exit status"
"$plan" --list | grep -q '^all_reduce .*ring.*hierarchical' || fail "--list lacks algorithms"
"$plan" all_reduce ring -n 16 --verify | grep -q '^in place: ok: 16 ranks' || fail "--verify does not say ok"

refuses 2 'needs a collective and an algorithm'
refuses 2 'no collective "all_reduced"' all_reduced ring
refuses 2 'no algorithm "rings", but ring, tree' all_reduce rings
refuses 2 'no rank 4 among 4' all_reduce ring -n 4 -r 4
refuses 2 'no root 4 among 4' broadcast ring -n 4 --root 4
refuses 2 'number from 1 to 65536, not "none"' all_reduce ring -n none
refuses 2 'number from 1 to 65536, not "-1"' all_reduce ring -n -1
refuses 2 'needs at least two nodes' all_reduce hierarchical -n 4
refuses 2 'same number of ranks on every node' all_reduce hierarchical -n 3 -l 0,0,1
refuses 2 'nodes of 2 ranks, not of 4' all_reduce hierarchical -n 4 -l 0,1
refuses 2 'more than 2 ranks' all_reduce hierarchical -n 2 -l 0,1,0
refuses 2 'numbered by first appearance' all_reduce hierarchical -n 2 -l 1,0
refuses 2 'at most 64 ranks' all_reduce ring -n 65 -s "$work/no.svg"
refuses 2 'help' --no-such-option
refuses 3 'cannot write' all_reduce ring -s "$work/no/such/folder.svg"
"$plan" all_reduce ring -n 8 --slots 1 --verify >"$work/out"
[ $? -eq 1 ] || fail "a deadlock does not end with 1"
grep -q 'deadlock: rank 0 .* waits for a slot to rank 1, with 1 slot per link' "$work/out" ||
    fail "no word of the deadlock"

for words in "all_reduce ring -n 4" "all_reduce tree -n 7" "all_reduce hierarchical -n 8 -l 0,1,0,1,0,1,0,1" \
             "gather binomial -n 6 --root 1" "all_to_all bruck -n 5" "broadcast ring -n 1"; do
    # shellcheck disable=SC2086
    "$plan" $words -s "$work/plan.svg" || fail "no drawing of $words"
    if command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$work/plan.svg" ||
            fail "drawing of $words"
    fi
    [ "$(head -c 4 "$work/plan.svg")" = "<svg" ] && tail -n 1 "$work/plan.svg" | grep -q '</svg>' ||
        fail "cut drawing of $words"
done
"$plan" all_reduce ring -n 4 -s "$work/plan.svg"
[ "$(grep -c 'class="message"' "$work/plan.svg")" -eq 24 ] || fail "a ring of 4 has 24 messages, not those drawn"
[ "$(grep -c '<g><title>rank' "$work/plan.svg")" -eq 28 ] || fail "a ring of 4 has 28 steps, not those drawn"

[ $failures -eq 0 ] && echo "ok"
exit $((failures != 0))
