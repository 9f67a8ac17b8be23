#include "serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace trireme {
namespace {

// The name in "localhost:4444" or "[::1]:4444".
std::string name_in(const std::string& host) {
  const size_t bracket = host.find(']');
  if (host.starts_with('[') && bracket != host.npos) return host.substr(1, bracket - 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(const std::string& name) { return name == "localhost" || name == "127.0.0.1" || name == "::1"; }

// An address cannot be made to resolve elsewhere.
bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, name.c_str(), ignored.data()) == 1 || ::inet_pton(AF_INET6, name.c_str(), ignored.data()) == 1;
}

bool is_expected_host(const AccessRules& rules, const std::string& host) {
  const std::string name = name_in(host);
  if (is_loopback_name(name)) return true;
  return !rules.host.empty() && (is_address(name) || name == rules.host || name == host_name());
}

std::string cookie_in(const HttpRequest& request, const std::string& name) {
  const std::string cookies = request.header("cookie");
  for (size_t begin = 0; begin < cookies.size();) {
    const size_t end = std::min(cookies.find(';', begin), cookies.size());
    const std::string_view cookie = trimmed(std::string_view(cookies).substr(begin, end - begin));
    if (cookie.starts_with(name + "=")) return std::string(cookie.substr(name.size() + 1));
    begin = end + 1;
  }
  return "";
}

// Takes equally long whatever the first difference is.
bool is_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  int difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

bool has_token(const AccessRules& rules, const HttpRequest& request) {
  return rules.token.empty() || is_equal(request.parameter("token"), rules.token) ||
         is_equal(cookie_in(request, rules.cookie_name), rules.token) ||
         is_equal(request.header("authorization"), "Bearer " + rules.token);
}

}  // namespace

std::string refusal(const AccessRules& rules, const HttpRequest& request) {
  const std::string host = request.header("host"), origin = request.header("origin"), site = request.header("sec-fetch-site");
  if (!is_expected_host(rules, host)) return fmt::format("this server does not answer for the host \"{}\"", host);
  if (!origin.empty() && origin != "http://" + host) return "requests of other sites are not answered";
  // A link to the page may be anywhere.
  const bool is_link = request.path == "/" && request.header("sec-fetch-mode") == "navigate";
  if (!site.empty() && site != "same-origin" && site != "none" && !is_link) return "requests of other sites are not answered";
  if (!has_token(rules, request)) return "the token is missing or wrong; open the address that trireme serve printed";
  return "";
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Failure("the system gives no random numbers, so no token can be made");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::vector<std::string> protective_headers() {
  return {
      "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "X-Content-Type-Options: nosniff",
      "X-Frame-Options: DENY",
      "Referrer-Policy: no-referrer",
      "Cross-Origin-Resource-Policy: same-origin",
      "Cross-Origin-Opener-Policy: same-origin",
      "Cache-Control: no-store"};
}

}  // namespace trireme
