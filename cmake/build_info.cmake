# The commit a binary was built from, for logs and reports. Git is asked at every build, since who builds again need not configure
# again; one small file is compiled when the answer is another.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(build_info ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
  set(write_build_info ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DOUTPUT=${build_info}
                       -P ${CMAKE_CURRENT_LIST_FILE})
  execute_process(COMMAND ${write_build_info})  # for tools that read what would be compiled
  add_custom_target(build_info COMMAND ${write_build_info} BYPRODUCTS ${build_info} COMMENT "Asking git for the commit" VERBATIM)
  target_sources(trireme_core PRIVATE ${build_info})
  add_dependencies(trireme_core build_info)
  return()
endif()

find_package(Git QUIET)
set(commit unknown)
if(EXISTS ${SOURCE}/.commit)  # sources that were packed for an image
  file(STRINGS ${SOURCE}/.commit commit LIMIT_COUNT 1)
endif()
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"#include \"base/build_info.h\"

namespace trireme {

const char* const kVersion = \"${VERSION}\";
const char* const kCommit = \"${commit}\";

}  // namespace trireme
")
