# The kernels of the cpu backend are one source, written with vector extensions and compiled once per instruction set into
# its own namespace; the backend picks one at run time. Files under kernels/amx/ are compiled twice: for the real tiles and
# for emulated ones, so that the AMX code is tested on machines without AMX.
function(trireme_kernels isa folder)
  file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/kernels/${folder}*.cpp)
  if(NOT kernel_sources)
    return()
  endif()
  add_library(trireme_kernels_${isa} OBJECT ${kernel_sources})
  target_include_directories(trireme_kernels_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(trireme_kernels_${isa} PRIVATE TRIREME_ISA=${isa})
  # GCC 12 warns about the deliberately undefined operands inside its own intrinsics.
  target_compile_options(trireme_kernels_${isa} PRIVATE -Wno-maybe-uninitialized ${ARGN})
  trireme_unity(trireme_kernels_${isa} ${kernel_sources})
  target_sources(trireme_core PRIVATE $<TARGET_OBJECTS:trireme_kernels_${isa}>)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512)
  trireme_kernels(baseline "" -O1)  # for CPUs without AVX2: its vectors are written out, and few will run it
  trireme_kernels(avx2 "" -O3 -mavx2 -mfma -mf16c)
  trireme_kernels(avx512 "" -O3 ${avx512})
  trireme_kernels(avx512_bf16 "" -O3 ${avx512} -mavx512bf16)
  trireme_kernels(amx "amx/" -O3 ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
  trireme_kernels(amx_emulated "amx/" -O1 -DTRIREME_AMX_EMULATED)
else()
  trireme_kernels(baseline "" -O3)
endif()
