A=(a.b="${X:-${Y:-$((2 ** 3 * (4 + 1)))}}" 'a.c=$Z' a.d=[q,"r s"])
if [ -n "$X" ]; then A+=(a.e=1); fi; X+=${A[@]} && Y=$(date "+%s")
cat <<-EOF
 it's "$none
	EOF
python3 -m verl.trainer.main_ppo "${A[@]}" ++a.f=$X ~a.g "$@" 2>&1 | tee log
