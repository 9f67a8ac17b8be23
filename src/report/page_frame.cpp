#include "report/page_frame.h"

#include <fmt/format.h>
#include <report_page.h>

#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/json.h"

namespace trireme {
namespace {

// Returns JSON for a script element. "<" occurs only in strings, where its escape is equivalent and cannot end the element.
std::string embedded(const nlohmann::ordered_json& data) {
  const std::string text = json_text(data, kOneLine);
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string page_opening(std::string_view generator) {
  return fmt::format("<!doctype html>\n<html lang=en>\n<meta name=generator content=\"{}\">\n", generator);
}

std::string page_begin(std::string_view generator, std::string_view title, std::string_view about) {
  const std::string name = html_escaped(title);
  return page_opening(generator) +
         "<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
         // Forbids all network access, whatever a log contains.
         "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
         "'unsafe-inline'\">\n" +
         fmt::format("<title>{}</title>\n<style>\n{}</style>\n<body>\n", name, kReportStyle) +
         fmt::format("<header><h1>{}</h1><p class=about>{}</p></header>\n<main>\n", name, about);
}

std::string page_end(std::string_view hint, const nlohmann::ordered_json& data, std::string_view script) {
  return fmt::format("</main>\n<footer>Made by trireme {} ({}). {}</footer>\n", kVersion, kCommit, hint) +
         fmt::format("<script type=application/json id=data>{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
                     embedded(data), script);
}

}  // namespace trireme
