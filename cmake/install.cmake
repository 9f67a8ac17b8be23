# What an installation consists of, and how the program finds it: relative to itself, so that the tree can be moved. Recipes are
# beside the program in a build folder, wherever that is, and under share after installation.
include(GNUInstallDirs)
foreach(folder recipes networks charts hardware profiles tasks)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    file(RELATIVE_PATH link ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/${folder})
    file(CREATE_LINK ${link} ${CMAKE_BINARY_DIR}/${folder} SYMBOLIC)
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/${folder})
  endif()
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/trireme/docs)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/trireme)

# Modules and libraries that come along are in lib/trireme, where module_file() looks, on every distribution.
set(modules lib/trireme)
set_target_properties(trireme PROPERTIES INSTALL_RPATH "\$ORIGIN/../${modules}")
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(module trireme_mpi trireme_cuda)
  if(TARGET ${module})
    set_target_properties(${module} PROPERTIES INSTALL_RPATH "\$ORIGIN:/usr/local/cuda/lib64:/usr/local/cuda/lib")
    install(TARGETS ${module} LIBRARY DESTINATION ${modules})
  endif()
endforeach()

# The program itself writes its manual pages and completions, from the tables that its --help comes from.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  execute_process(COMMAND $<TARGET_FILE:trireme> man --output \${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
  foreach(place bash:bash-completion/completions/trireme zsh:zsh/site-functions/_trireme fish:fish/vendor_completions.d/trireme.fish)
    string(REGEX MATCH \"^([a-z]+):(.*)\" matched \${place})
    cmake_path(GET CMAKE_MATCH_2 PARENT_PATH folder)
    file(MAKE_DIRECTORY \${share}/\${folder})
    execute_process(COMMAND $<TARGET_FILE:trireme> completion \${CMAKE_MATCH_1} OUTPUT_FILE \${share}/\${CMAKE_MATCH_2} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")

# `cmake -DTRIREME_BUNDLE=ON -P build/cmake_install.cmake` adds the libraries that a machine with nothing but a driver lacks: CUDA's,
# and those that this distribution has no static form of. glibc and MPI are the machine's own,
# and so are libstdc++ and zlib, which only NVIDIA's libraries need: every distribution has them, and an older copy would hide a newer.
if(TARGET trireme_cuda)
  get_filename_component(cuda_folder ${CUDNN_LIBRARY} DIRECTORY)
  set(cuda_module $<TARGET_FILE:trireme_cuda>)
endif()
install(CODE "
  if(TRIREME_BUNDLE)
    # These are loaded by name when they are first used.
    if(NOT \"${cuda_folder}\" STREQUAL \"\")
      file(GLOB loaded ${cuda_folder}/libcudnn_*.so.9 ${cuda_folder}/libnccl.so.2 ${CUDAToolkit_LIBRARY_DIR}/libnvrtc-builtins.so.*)
    endif()
    file(GET_RUNTIME_DEPENDENCIES RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
         EXECUTABLES $<TARGET_FILE:trireme> MODULES ${cuda_module} LIBRARIES \${loaded} DIRECTORIES ${cuda_folder}
         PRE_EXCLUDE_REGEXES \"^ld-linux\" \"^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\\\\+\\\\+|z)\\\\.so\" \"^libcuda\\\\.so\")
    if(missing)
      message(FATAL_ERROR \"these libraries were not found: \${missing}\")
    endif()
    foreach(library \${libraries} \${loaded})
      file(INSTALL \${library} DESTINATION \${CMAKE_INSTALL_PREFIX}/${modules} FOLLOW_SYMLINK_CHAIN)
    endforeach()
  endif()")
