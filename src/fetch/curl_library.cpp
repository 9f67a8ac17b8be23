#ifdef TRIREME_HAS_CURL

  #include "fetch/curl_library.h"

  #include <dlfcn.h>

  #include "base/error.h"

namespace trireme {
namespace {

CurlLibrary load_curl() {
  void* module = nullptr;
  // Debian has it with OpenSSL, or with GnuTLS under the second name. The interface is the same.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    if (module == nullptr) module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw UserError("http and https need libcurl.so.4, which is not installed; install libcurl4");
  CurlLibrary curl;
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(dlsym(module, name));
    if (function == nullptr) throw UserError("libcurl.so.4 has no {}; install libcurl4", name);
  };
  find(curl.global_init, "curl_global_init");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  curl.global_init(CURL_GLOBAL_DEFAULT);
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load_curl();
  return library;
}

}  // namespace trireme

#endif
