# The program runs on distributions other than the one that built it: it needs nothing but glibc to start. Libraries are linked
# statically where the distribution has them so, and MPI, CUDA and libcurl are loaded when they are first needed.

# Finds a library, preferring the static one.
function(trireme_find_library variable name)
  find_library(${variable} NAMES lib${name}.a ${name} REQUIRED)
endfunction()

# What fmt's headers only declare: Debian has no static libfmt. Nothing of it is inlined, or it would not be in the object.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/fmt.cpp CONTENT "#include <fmt/format.h>\n")
add_library(trireme_fmt STATIC ${CMAKE_BINARY_DIR}/generated/fmt.cpp)
target_compile_definitions(trireme_fmt PRIVATE FMT_HEADER_ONLY FMT_USE_CONSTEXPR=1)
target_compile_options(trireme_fmt PRIVATE -O2 -fno-inline -fno-ipa-sra -fkeep-inline-functions -ffunction-sections -fvisibility=hidden
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-unused-command-line-argument>)
set_target_properties(trireme_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(trireme_fmt SYSTEM PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)

# A static hwloc asks udev for the names of disks, which no part of the program uses.
add_library(trireme_no_udev STATIC src/base/no_udev.cpp)

# Gives a program or module its own copy of the C++ library, hidden from what it loads: cuDNN brings another. libgcc is part of every
# installation that has glibc, and a static one would need a newer glibc.
function(trireme_make_portable target)
  if(TRIREME_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  target_link_libraries(${target} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,trireme_fmt>)
  target_link_options(${target} PRIVATE -static-libstdc++ -Wl,--as-needed -Wl,--gc-sections
    -Wl,--exclude-libs,libstdc++.a:libtrireme_fmt.a:libyaml-cpp.a:libzstd.a:libz.a:liblzma.a:libhwloc.a)
endfunction()
