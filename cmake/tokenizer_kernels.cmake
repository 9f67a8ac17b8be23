# The inner loops of the tokenizer: one source, compiled once per instruction set; the tokenizer picks one at run time.
function(trireme_tokenizer_kernels isa)
  add_library(trireme_tokenizer_${isa} OBJECT ${PROJECT_SOURCE_DIR}/src/data/tokenizer/kernels/word_kernels.cpp)
  target_include_directories(trireme_tokenizer_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(trireme_tokenizer_${isa} PRIVATE TRIREME_ISA=${isa})
  # GCC 12 warns about the deliberately undefined operands inside its own intrinsics.
  target_compile_options(trireme_tokenizer_${isa} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized ${ARGN})
  target_sources(trireme_core PRIVATE $<TARGET_OBJECTS:trireme_tokenizer_${isa}>)
endfunction()

trireme_tokenizer_kernels(baseline -O2)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(avx2 -O2 -mavx2 -mbmi -mbmi2 -mpopcnt -mlzcnt)
  trireme_tokenizer_kernels(avx2 ${avx2})
  trireme_tokenizer_kernels(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl)
endif()
