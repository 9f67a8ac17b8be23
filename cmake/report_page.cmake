# The styles and the scripts of HTML pages as C++ strings, so that the program needs no files beside it.
function(trireme_embed header)  # then pairs: the name of a constant, and its files, one after the other
  set(text "#pragma once\n#include <string_view>\n")
  while(ARGN)
    list(POP_FRONT ARGN name files)
    string(REPLACE "+" ";" files ${files})
    set(content)
    foreach(file ${files})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${file})
      file(READ ${PROJECT_SOURCE_DIR}/src/${file} part)
      string(APPEND content "${part}")
    endforeach()
    string(APPEND text "inline constexpr std::string_view ${name} = R\"page(${content})page\";\n")
  endwhile()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${header} @ONLY CONTENT "${text}")
endfunction()

set(charts report/page/charts.js)
trireme_embed(report_page.h kReportStyle report/page/page.css kReportScript ${charts}+report/page/page.js)
trireme_embed(plan_page_script.h kPlanScript plan/page/plan.js)
trireme_embed(validate_page_script.h kValidateScript validate/page/validate.js)
trireme_embed(serve_page.h kServeHtml serve/page/serve.html kServeStyle report/page/page.css+serve/page/serve.css
              kServeScript ${charts}+serve/page/state.js+serve/page/data.js+serve/page/runs.js+serve/page/details.js+serve/page/ranks.js+serve/page/serve.js)
