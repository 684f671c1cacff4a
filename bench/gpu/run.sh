#!/usr/bin/env bash
# Measures on a machine with a GPU what docs/measured/ lists. Parts, in this order, or those named:
#   build tests memory transformers speed loss kernels calibrate trace
#
#   bench/gpu/run.sh [--quick] [--out DIR] [--seconds S] [--device cpu] [--model NAME] ... [PART...]
#
# A part that fails leaves its reason in DIR/<part>.json and .md, and the others go on. Before the first
# run on a bare machine, bench/gpu/pack_headers.sh on one that has the distribution's headers.
set -uo pipefail
cd "$(dirname "$0")/../.."

all=(build tests memory transformers speed loss kernels calibrate trace)
options=() parts=() out=build/gpu-bench
while [ $# -gt 0 ]; do
  case $1 in
    --quick) options+=("$1") ;;
    --out) out=$2; shift ;;
    --*) options+=("$1" "$2"); shift ;;
    *) parts+=("$1") ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
mkdir -p "$out"
python=${PYTHON:-python3} status=0
for part in "${parts[@]}"; do
  case " ${all[*]} " in
    *" $part "*) ;;
    *) echo "error: no part \"$part\"; there are ${all[*]}" >&2; exit 2 ;;
  esac
  script=bench/gpu/$part.py
  [ "$part" != transformers ] || script=bench/gpu/transformers_part.py
  rm -f "$out/$part.json" "$out/$part.md"
  if ! "$python" "$script" --out "$out" ${options[@]+"${options[@]}"} 2>"$out/$part.err" </dev/null; then
    status=1
    tail -n 3 "$out/$part.err" >&2
    # What a part could not even begin to say.
    [ -e "$out/$part.json" ] || PART=$part OUT=$out "$python" -c '
import json, os, pathlib
folder, part = pathlib.Path(os.environ["OUT"]), os.environ["PART"]
why = (folder / f"{part}.err").read_text().strip().splitlines()[-1:] or ["it said nothing"]
(folder / f"{part}.json").write_text(json.dumps({"part": part, "failed": why[0]}) + "\n")
(folder / f"{part}.md").write_text(f"# {part}\n\nfailed: {why[0]}\n")'
  fi
done
for part in "${parts[@]}"; do cat "$out/$part.md" 2>/dev/null; echo; done
exit $status
