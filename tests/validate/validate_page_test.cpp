// The page of a validation in headless Chromium.
#include <gtest/gtest.h>

#include "support/browser.h"
#include "validate/report.h"

namespace trireme {
namespace {

class ValidatePageBrowserSlow : public BrowserTest {
 protected:
  // Six nodes of which h3 is slow with all others.
  static ValidationReport example() {
    ValidationReport report;
    report.when = "2026-01-02 03:04:05";
    report.command = "trireme validate --html page.html";
    for (int node = 0; node < 6; ++node) {
      report.nodes.push_back({{fmt::format("h{}", node + 1), {{"cores", "2"}, {"cpu", "</script><b>cpu"}}}, {node}});
      report.units.push_back(fmt::format("h{}", node + 1));
      report.ranks.push_back(
          {.rank = node, .node = report.units.back(), .device = "CPU", .rates = {.flops = 1e12, .bytes = 1e11}});
      for (int other = 0; other < node; ++other) report.pairs.push_back({{other, node}, node == 2 || other == 2 ? 1e8 : 1e9});
    }
    report.pair_reference = 1e9;
    report.findings = {
        {FindingKind::failure, "network", "h3", "h3 is slow with its partners", "at best 0.1 GB/s", "0.5 GB/s", "check"}};
    return report;
  }
  std::string drawn(const std::string& then, int width = 1280) {
    return dom_of(folder_.write("page.html", page_of(example())), then, width);
  }
};

// Reads the colours of cells back from the canvas: the row of h3 differs from the others.
TEST_F(ValidatePageBrowserSlow, DrawsTheSlowNodeInAnotherColour) {
  const std::string dom = drawn(R"({
const canvas = document.querySelector('canvas'), ratio = canvas.width / canvas.clientWidth, pen = canvas.getContext('2d');
const at = (row, column) => pen.getImageData((grid_label() + (column + .4) * 36) * ratio, (grid_label() + (row + .4) * 36) * ratio, 1, 1).data.join();
function grid_label() { return canvas.clientHeight - 6 * 36; }
document.body.dataset.slow = at(2, 0) === at(4, 2) && at(2, 0) === at(2, 5);
document.body.dataset.fast = at(0, 1) === at(5, 4) && at(0, 1) !== at(2, 0);
document.body.dataset.same = at(3, 3) !== at(0, 1) && at(3, 3) !== at(2, 0);
const box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + grid_label() + 5, clientY: box.top + grid_label() + 2 * 36 + 5 }));
document.body.dataset.tip = document.querySelector('.tip').textContent;
})");
  EXPECT_NE(dom.find("data-drawn=\"15 pairs, 5 slow\""), std::string::npos);
  for (const char* said : {"data-slow=\"true\"", "data-fast=\"true\"", "data-same=\"true\""})
    EXPECT_NE(dom.find(said), std::string::npos) << said;
  EXPECT_NE(dom.find("data-tip=\"h3 - h1: 0.100 GB/s, 10% of the usual\""), std::string::npos);
  EXPECT_NE(dom.find("--exclude=h3"), std::string::npos);
}

TEST_F(ValidatePageBrowserSlow, FitsAPhone) {
  const std::string dom = drawn("document.body.dataset.page = document.documentElement.scrollWidth <= innerWidth;", 390);
  EXPECT_NE(dom.find("data-page=\"true\""), std::string::npos);
}

TEST(ValidatePage, WithoutPairsHasNoMap) {
  ValidationReport report;
  report.nodes.push_back({{"h1", {}}, {0}});
  const std::string page = page_of(report);
  EXPECT_EQ(page.find("<canvas"), std::string::npos);
  EXPECT_NE(page.find("Cluster is good"), std::string::npos);
}

}  // namespace
}  // namespace trireme
