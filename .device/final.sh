cmake --preset release -DTRIREME_BENCH=ON 2>&1 | tail -1
cmake --build build -j 16 -- -k 0 2>&1 | grep -E 'error|FAILED' | head -20
export PYTHONUNBUFFERED=1
(taskset -c 8-15 ctest --test-dir build -j 4 2>&1 | tail -12 > $OUT/ctest.txt) &
taskset -c 4,5 build/gemm_bench 2 6 > $OUT/gemm.txt; taskset -c 4,5 build/attention_bench > $OUT/attention.txt; wait; cat $OUT/ctest.txt
P="--cores 4-5 --precisions bf16 --peer .device/torch_gpt.py --commit d4c8f672d8c1"
timeout 190 python3 bench/cpu/compare.py $P --cases 124m-1k --modes eager --rounds 2 --steps 3 --name 2026-11-15-amx-124m; cp bench/cpu/reports/* $OUT/
timeout 190 python3 bench/cpu/compare.py $P --cases 10m --modes eager,default --rounds 2 --steps 5 --name 2026-11-15-amx-10m; cp bench/cpu/reports/* $OUT/
