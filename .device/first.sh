set -u
lscpu | grep -E 'Model name|MHz|L2|L3' ; grep -o -w -E 'amx_bf16|avx512_bf16' /proc/cpuinfo | sort | uniq -c
cmake --preset release -DTRIREME_BENCH=ON 2>&1 | tail -2
time cmake --build build -j 16 2>&1 | grep -E 'error|warning|FAILED' | head -20
ls build/trireme || exit 1
echo "== parity"; for t in parity golden engine train; do timeout 200 build/tests/${t}_test 2>&1 | grep -E 'FAILED|PASSED' | head -20; done
echo "== gemm 2 threads"; timeout 60 taskset -c 0,1 build/gemm_bench 2 5
echo "== attention"; timeout 60 taskset -c 0,1 build/attention_bench 2>&1 | head -40
for c in 10m 124m-1k; do for p in bf16 32; do
 echo "== ours $c $p"; timeout 120 taskset -c 0,1 build/trireme train bench/cpu/recipes/$c.yaml exp_manager.explicit_log_dir=/tmp/r-$c-$p trainer.precision=$p trainer.max_steps=5 --op-times 2>&1 | grep -v '^layout\|^data\|^batch\|^run\|^files\|^next'
done; done
