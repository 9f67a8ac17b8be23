cmake --preset release -DTRIREME_BENCH=ON 2>&1 | tail -1
cmake --build build -j 16 --target trireme parity_test golden_test engine_test gemm_bench attention_bench 2>&1 | grep -E 'error|FAILED' | head
for t in parity golden engine; do timeout 200 build/tests/${t}_test 2>&1 | grep -E 'FAILED|PASSED' | head -10; done
taskset -c 4,5 build/gemm_bench 2 8 | sed -n '/bf16/,$p' | grep -v '  1    768'
taskset -c 4,5 build/attention_bench | grep -E 'bf16|fwd'
for c in 10m 124m-1k; do for p in bf16; do for i in 1 2; do
 rm -rf /tmp/r; timeout 120 taskset -c 4,5 build/trireme train bench/cpu/recipes/$c.yaml exp_manager.explicit_log_dir=/tmp/r trainer.precision=$p trainer.max_steps=6 --op-times 2>&1 | grep -E 'speed|rates   0|rates   1|linear|attention|cross|adamw|fill|norm'
done; done; done
