g++ -O2 -std=c++20 -mamx-tile -mamx-bf16 -mavx512f .device/amx.cpp -o /tmp/amx -lpthread
/tmp/amx
( taskset -c 8,9 python3 .device/torch_gpt.py --device cpu --dtype bf16 --modes eager,default --steps 3 10m:4 124m-1k:4 > /tmp/p1 2>&1 ) &
( taskset -c 12,13 python3 .device/torch_gpt.py --device cpu --dtype fp32 --modes eager --steps 2 10m:4 124m-1k:4 > /tmp/p2 2>&1 ) &
wait; grep PEER /tmp/p1 /tmp/p2
cmake --preset release 2>&1 | tail -3; cmake --build build -j 16 2>&1 | grep -E 'error|FAILED' | head; ls build/tests | head -3
