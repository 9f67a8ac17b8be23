# The style and the scripts of HTML pages as C++ strings, so that the program needs no files beside it.
foreach(asset report/page/page.css report/page/page.js plan/page/plan.js validate/page/validate.js)
  string(MAKE_C_IDENTIFIER ${asset} name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${asset})
  file(READ ${PROJECT_SOURCE_DIR}/src/${asset} ${name})
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/report_page.h @ONLY CONTENT
"#pragma once
#include <string_view>
inline constexpr std::string_view kReportStyle = R\"page(${report_page_page_css})page\";
inline constexpr std::string_view kReportScript = R\"page(${report_page_page_js})page\";
")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/plan_page_script.h @ONLY CONTENT
"#pragma once
#include <string_view>
inline constexpr std::string_view kPlanScript = R\"page(${plan_page_plan_js})page\";
")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/validate_page_script.h @ONLY CONTENT
"#pragma once
#include <string_view>
inline constexpr std::string_view kValidateScript = R\"page(${validate_page_validate_js})page\";
")
