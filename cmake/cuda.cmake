# The CUDA backend, a module that the program loads when it finds a GPU. Built where a CUDA compiler, cuBLASLt, cuDNN and the headers of cudnn-frontend are found; one line says what
# is missing otherwise. TRIREME_CUDA_ARCHITECTURES cuts the build down to the GPUs at hand, e.g. 90a.
option(TRIREME_CUDA "Build the CUDA backend where its tools are found" ON)
option(TRIREME_CUDA_REQUIRED "Stop where the CUDA backend cannot be built" OFF)
set(TRIREME_CUDA_MISSING STATUS)
if(TRIREME_CUDA_REQUIRED)
  set(TRIREME_CUDA_MISSING FATAL_ERROR)
endif()
set(TRIREME_CUDA_ARCHITECTURES "" CACHE STRING "GPUs to build for; empty: all that Trireme knows and the compiler can")

function(trireme_find_cuda result)
  set(${result} FALSE PARENT_SCOPE)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(${TRIREME_CUDA_MISSING} "cuda backend: left out, no CUDA compiler was found")
    return()
  endif()
  execute_process(COMMAND python3 -c "import nvidia.cudnn as c; print(list(c.__path__)[0])" OUTPUT_VARIABLE pip_cudnn
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${pip_cudnn}/include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${pip_cudnn}/lib)
  find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend/include)
  foreach(part CUDAToolkit_FOUND CUDNN_INCLUDE CUDNN_LIBRARY CUDNN_FRONTEND_INCLUDE)
    if(NOT ${part})
      message(${TRIREME_CUDA_MISSING} "cuda backend: left out, ${part} was not found (cudnn-frontend: scripts/setup brings it)")
      return()
    endif()
  endforeach()
  set(${result} TRUE PARENT_SCOPE)
endfunction()

if(NOT TRIREME_CUDA)
  return()
endif()
find_package(CUDAToolkit QUIET)
trireme_find_cuda(found)
if(NOT found)
  return()
endif()

if(NOT TRIREME_CUDA_ARCHITECTURES)
  set(TRIREME_CUDA_ARCHITECTURES 80 90a)
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND TRIREME_CUDA_ARCHITECTURES 100)
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${TRIREME_CUDA_ARCHITECTURES})
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # which CMake 3.25 does not know yet

# With its own copy of the few things of ours that it calls.
file(GLOB cuda_sources CONFIGURE_DEPENDS src/backend/cuda/*.cpp src/backend/cuda/*.cu)
add_library(trireme_cuda MODULE ${cuda_sources} src/base/clock.cpp src/base/error.cpp src/base/file.cpp src/base/units.cpp src/tensor/arena.cpp
            src/tensor/tensor.cpp src/backend/choice_trials.cpp src/backend/ops.cpp)
set_target_properties(trireme_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(trireme_cuda PRIVATE src)
target_include_directories(trireme_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE} ${CUDNN_FRONTEND_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
trireme_make_portable(trireme_cuda)  # first, so that fmt is found in it and not in libfmt.so
target_link_libraries(trireme_cuda PRIVATE fmt::fmt CUDA::cudart_static CUDA::cublasLt CUDA::nvrtc ${CUDNN_LIBRARY})
# FMT_USE_CONSTEXPR: fmt 9 turns its constexpr off for nvcc in some places but not in all. The code for each kind of GPU is made
# at the same time. As with GCC, warnings stop the build where they are known.
target_compile_options(trireme_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -DFMT_USE_CONSTEXPR=1 --threads=0
                       -Xcompiler=-Wall,-Wextra>)
if(CMAKE_CUDA_COMPILER_VERSION MATCHES "^13\\.0\\.")
  target_compile_options(trireme_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
# The frontend of cuDNN is one and a half minutes of headers; what takes time when it runs is in the library behind them.
set_source_files_properties(src/backend/cuda/attention.cpp PROPERTIES COMPILE_OPTIONS -O1)
target_link_options(trireme_cuda PRIVATE -Wl,--no-undefined)
add_dependencies(trireme trireme_cuda)
