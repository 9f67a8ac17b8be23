cmake --preset release -DTRIREME_BENCH=ON 2>&1 | tail -1
cmake --build build -j 16 --target trireme parity_test gemm_bench attention_bench 2>&1 | grep -E 'error|FAILED' | head
for t in parity; do timeout 200 build/tests/${t}_test 2>&1 | grep -E 'FAILED|PASSED' | head -10; done
for i in 1 2; do taskset -c 4,5 build/gemm_bench 2 6 | sed -n '/bf16/,$p' | grep -v '  1    768'; done
for c in 10m 124m-1k; do for i in 1 2; do
 rm -rf /tmp/r; timeout 120 taskset -c 4,5 build/trireme train bench/cpu/recipes/$c.yaml exp_manager.explicit_log_dir=/tmp/r trainer.precision=bf16 trainer.max_steps=6 --op-times 2>&1 | grep -E 'speed|linear|attention|cross'
done; done
