#!/usr/bin/env bash
# One time-boxed run on a machine with a GPU, or a trial of it without one: README.md beside this file.
#
#   bench/gpu/run.sh --out DIR                      the whole, 555 s
#   bench/gpu/run.sh --out DIR --again EARLIER      what failed there and what it had not reached, 150 s
#   bench/gpu/run.sh --out DIR --emulated --workers 1 --only TEXT --phases memory     here, on the emulated device
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD packed=$PWD/bench/gpu/packed

if [[ " $* " == *" --emulated "* ]]; then
  python=${PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/ac-advisor/python-2.11/bin/python}
else
  python=${PYTHON:-python3}
  for folder in bin usr; do
    [ -d "$packed/$folder" ] || tar -C "$packed" -xzf "$packed/$folder.tgz" || echo "$packed/$folder.tgz: not unpacked" >&2
  done
  site=$(mktemp -d)
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$site" "$packed"/wheels/*.whl >&2 ||
    echo "the packed wheels are not installed: transformers is the machine's own" >&2
  torch=$("$python" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("torch").origin))')
  libraries=$packed/bin:$torch/lib
  for part in cu13 cudnn nccl cusparselt nvshmem; do libraries+=:$(dirname "$torch")/nvidia/$part/lib; done
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
# A package and no folder of scripts: `-P` keeps what lies around from hiding modules of the same name.
export PYTHONPATH=$root/bench/gpu${PYTHONPATH:+:$PYTHONPATH} PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1
export GPU_DAY_BEGAN=$SECONDS
exec "$python" -m gpu_day "$@"
