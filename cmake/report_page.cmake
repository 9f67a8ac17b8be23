# The style and the script of report pages as C++ strings, so that the program needs no files beside it.
foreach(kind css js)
  set(asset ${PROJECT_SOURCE_DIR}/src/report/page/page.${kind})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${asset})
  file(READ ${asset} page_${kind})
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/report_page.h @ONLY CONTENT
"#pragma once
#include <string_view>
inline constexpr std::string_view kReportStyle = R\"page(${page_css})page\";
inline constexpr std::string_view kReportScript = R\"page(${page_js})page\";
")
