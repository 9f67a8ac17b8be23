#include "fetch/http.h"

#include "base/error.h"
#include "fetch/http_headers.h"
#include "fetch/transfer_error.h"

#ifdef TRIREME_HAS_CURL

  #include <algorithm>
  #include <array>
  #include <cmath>
  #include <exception>

  #include "fetch/curl_library.h"

namespace trireme {
namespace {

constexpr size_t kPageLimit = 64 << 20;
constexpr size_t kErrorPageLimit = 4096;
constexpr int64_t kReceiveBuffer = 512 << 10;

}  // namespace

struct HttpClient::Handle {
  Handle() : easy(curl.easy_init()) {
    if (easy == nullptr) throw Failure("libcurl cannot be started");
  }
  ~Handle() { curl.easy_cleanup(easy); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const CurlLibrary& curl = curl_library();
  CURL* easy;
};

// One request and its response, as seen by the callbacks.
struct HttpClient::Exchange {
  std::string address, range, if_range;
  std::function<bool(const HttpHeaders&)> begin;  // called before the first byte, or for an empty body; false: stop
  Sink sink;
  const std::atomic<bool>* stop = nullptr;

  HttpHeaders headers;
  bool begun = false, enough = false;
  std::string error_page;
  std::exception_ptr thrown;

  bool has_body() const { return headers.status >= 200 && headers.status < 300; }
  bool start() {
    if (!begun) {
      begun = true;
      enough = !begin(headers);
    }
    return !enough;
  }

  // Exceptions must not cross libcurl, which is C, so they are stored here.
  template <class Call>
  size_t guarded(size_t size, Call&& call) {
    try {
      return call() ? size : 0;
    } catch (...) {
      thrown = std::current_exception();
      return 0;
    }
  }
  static size_t on_header(char* data, size_t, size_t size, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    return exchange.guarded(size, [&] {
      exchange.headers.add_line({data, size});
      return true;
    });
  }
  static size_t on_body(char* data, size_t, size_t size, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    return exchange.guarded(size, [&] {
      if (!exchange.has_body()) {
        if (exchange.error_page.size() < kErrorPageLimit) exchange.error_page.append(data, size);
        return true;
      }
      if (!exchange.start()) return false;
      exchange.sink(std::as_bytes(std::span(data, size)));
      return true;
    });
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const std::atomic<bool>* stop = static_cast<Exchange*>(self)->stop;
    return stop != nullptr && *stop ? 1 : 0;
  }
};

namespace {

// Returns the code in a store's error page: <Code>NoSuchKey</Code>.
std::string store_code(const std::string& page) {
  const size_t begin = page.find("<Code>"), end = page.find("</Code>");
  if (begin == std::string::npos || end == std::string::npos || end < begin + 6 || end > begin + 80) return {};
  return " " + page.substr(begin + 6, end - begin - 6);
}

[[noreturn]] void throw_status(const HttpHeaders& headers, const std::string& page) {
  const std::string text = fmt::format("the server answered {}{}", headers.status, store_code(page));
  if (headers.status == 401 || headers.status == 403) throw TransferError(Remedy::credentials, text);
  if (headers.status == 408 || headers.status == 425 || headers.status == 429 || headers.status >= 500)
    throw TransferError(Remedy::retry, text, headers.retry_after);
  throw TransferError(Remedy::other_source, text);
}

[[noreturn]] void throw_curl(CURLcode code, const char* detail) {
  const std::string text = detail[0] != '\0' ? detail : curl_library().easy_strerror(code);
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      throw TransferError(Remedy::other_source, text);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
      throw TransferError(Remedy::unreachable, text);
    case CURLE_ABORTED_BY_CALLBACK:
      throw TransferError(Remedy::none, "stopped");
    default:
      throw TransferError(Remedy::retry, text);
  }
}

}  // namespace

HttpClient::HttpClient(const HttpLimits& limits) : limits_(limits), handle_(std::make_unique<Handle>()) {}

HttpClient::~HttpClient() = default;

void HttpClient::perform(Exchange& exchange) {
  const CurlLibrary& curl = handle_->curl;
  CURL* easy = handle_->easy;
  const auto set = [&](CURLoption option, auto value) { curl.easy_setopt(easy, option, value); };
  curl.easy_reset(easy);  // resets options only; connections stay open
  exchange.stop = limits_.stop;
  std::array<char, CURL_ERROR_SIZE> detail{};
  const long patience = std::max(1L, std::lround(limits_.timeout_seconds));
  struct curl_slist* headers = nullptr;
  if (!exchange.if_range.empty()) headers = curl.slist_append(headers, ("If-Range: " + exchange.if_range).c_str());
  set(CURLOPT_URL, exchange.address.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_USERAGENT, "trireme");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  #if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  #else
  set(CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
  set(CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
  #endif
  const double connect_seconds = std::min(limits_.connect_seconds, limits_.timeout_seconds);
  set(CURLOPT_CONNECTTIMEOUT_MS, std::max(1L, std::lround(connect_seconds * 1000)));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, patience);
  set(CURLOPT_BUFFERSIZE, static_cast<long>(kReceiveBuffer));
  set(CURLOPT_ERRORBUFFER, detail.data());
  set(CURLOPT_HEADERFUNCTION, Exchange::on_header);
  set(CURLOPT_HEADERDATA, &exchange);
  set(CURLOPT_WRITEFUNCTION, Exchange::on_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, Exchange::on_progress);
  set(CURLOPT_XFERINFODATA, &exchange);
  if (!exchange.range.empty()) set(CURLOPT_RANGE, exchange.range.c_str());
  const CURLcode code = curl.easy_perform(easy);
  curl.slist_free_all(headers);
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  if (exchange.enough) return;
  if (code != CURLE_OK) throw_curl(code, detail.data());
  if (!exchange.has_body()) throw_status(exchange.headers, exchange.error_page);
  exchange.start();  // an empty body triggers no callback
}

// Requests one byte. A server without range support would send the whole file, so only its headers are read.
RemoteFile HttpClient::probe(const std::string& address) {
  Exchange exchange{.address = address, .range = "0-0", .begin = [](const HttpHeaders&) { return false; }};
  try {
    perform(exchange);
  } catch (const TransferError&) {
    // An empty file has no first byte, so 416 is expected.
    if (exchange.headers.status != 416 || exchange.headers.range_total > 0) throw;
    exchange.headers.range_total = 0;
  }
  return exchange.headers.file();
}

void HttpClient::read(const std::string& address, int64_t begin, int64_t end, const std::string& identity,
                      const std::function<void(const RemoteFile&)>& answered, const Sink& sink) {
  const bool whole = begin == 0 && end < 0;
  Exchange exchange{.address = address, .sink = sink};
  if (!whole) exchange.range = end < 0 ? fmt::format("{}-", begin) : fmt::format("{}-{}", begin, end - 1);
  if (!whole && identity.starts_with('"')) exchange.if_range = identity;  // If-Range needs a strong tag
  exchange.begin = [&](const HttpHeaders& headers) {
    const RemoteFile file = headers.file();
    if (!identity.empty() && !file.identity.empty() && file.identity != identity)
      throw TransferError(Remedy::restart, "the file changed at its place");
    if (!whole && headers.status != 206)
      throw TransferError(Remedy::whole_file, "the server answered a request for a part with the whole");
    if (!whole && headers.range_first != begin)
      throw TransferError(Remedy::whole_file,
                          fmt::format("the server answered a request for byte {} with byte {}", begin, headers.range_first));
    answered(file);
    return true;
  };
  perform(exchange);
}

std::string HttpClient::page(const std::string& address) {
  std::string text;
  Exchange exchange{.address = address, .begin = [](const HttpHeaders&) { return true; }};
  exchange.sink = [&](std::span<const std::byte> bytes) {
    if (text.size() + bytes.size() > kPageLimit) throw TransferError(Remedy::other_source, "the page is too long");
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  perform(exchange);
  return text;
}

}  // namespace trireme

#else

namespace trireme {

struct HttpClient::Handle {};
HttpClient::HttpClient(const HttpLimits&) {
  throw UserError(
      "http and https need libcurl, which this trireme was built without; install libcurl4-openssl-dev and build again");
}
HttpClient::~HttpClient() = default;
RemoteFile HttpClient::probe(const std::string&) { CHECK_NEVER("no libcurl"); }
void HttpClient::read(const std::string&, int64_t, int64_t, const std::string&, const std::function<void(const RemoteFile&)>&,
                      const Sink&) {
  CHECK_NEVER("no libcurl");
}
std::string HttpClient::page(const std::string&) { CHECK_NEVER("no libcurl"); }

}  // namespace trireme

#endif
