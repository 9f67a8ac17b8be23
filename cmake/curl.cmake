# HTTP for `trireme data fetch`. Optional: without it the command copies from folders only, and says what is missing.
find_package(CURL QUIET)
if(CURL_FOUND)
  target_link_libraries(trireme_core PRIVATE CURL::libcurl)
  target_include_directories(trireme_services SYSTEM PRIVATE ${CURL_INCLUDE_DIRS})
  target_compile_definitions(trireme_services PRIVATE TRIREME_HAS_CURL)
endif()
