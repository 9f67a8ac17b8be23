// Who may ask. A page of another site that is open in the user's browser can send requests to 127.0.0.1 too, and with a name of
// its own that resolves there (DNS rebinding) it could read the answers.
#pragma once

#include <string>

#include "serve/http_server.h"

namespace trireme {

struct AccessRules {
  std::string host;   // as --host says; empty: loopback only
  std::string token;  // required unless it is empty
  std::string cookie_name;
};

// Returns why the request is refused; empty if it is not.
std::string refusal(const AccessRules& rules, const HttpRequest& request);

// 128 random bits as text.
std::string random_token();

// The headers of every response: no other site may be asked for anything, embed the page or read it.
std::vector<std::string> protective_headers();

}  // namespace trireme
