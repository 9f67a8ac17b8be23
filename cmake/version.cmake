# The commit a binary was built from, for logs and reports.
find_package(Git QUIET)
set(TRIREME_COMMIT unknown)
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(TRIREME_COMMIT ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/version.h CONTENT
"#pragma once
#define TRIREME_VERSION \"${PROJECT_VERSION}\"
#define TRIREME_COMMIT \"${TRIREME_COMMIT}\"
")
