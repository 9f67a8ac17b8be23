// libcurl, loaded when an address of the web is first asked for. The program starts without it, because it brings twenty other
// libraries, and most runs never fetch anything.
#pragma once

#include <curl/curl.h>

namespace trireme {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Loads and starts it once per process. UserError if it is not installed.
const CurlLibrary& curl_library();

}  // namespace trireme
