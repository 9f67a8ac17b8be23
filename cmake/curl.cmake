# HTTP for `trireme data fetch`. Optional: without its headers the command copies from folders only, and says what is missing. The
# library itself is loaded when the program runs (fetch/curl_library.h).
find_package(CURL QUIET)
if(CURL_FOUND)
  target_include_directories(trireme_services SYSTEM PRIVATE ${CURL_INCLUDE_DIRS})
  target_compile_definitions(trireme_services PRIVATE TRIREME_HAS_CURL)
endif()
