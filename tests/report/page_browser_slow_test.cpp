// The report page in headless Chromium: the script runs to its end without an error, draws every chart, and runs nothing that
// came from a log.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "logs.h"
#include "support/browser.h"

namespace trireme {
namespace {

class PageBrowserTest : public BrowserTest {
 protected:
  std::string drawn(const std::string& runs, const std::string& then = "", int width = 1280) {
    const std::string page = folder_ / "page.html";
    const auto made = run_program("report " + runs + " --output " + page);
    EXPECT_EQ(made.status, 0) << made.output;
    return dom_of(page, then, width);
  }
  static int64_t occurrences(const std::string& text, const std::string& part) {
    int64_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
};

TEST_F(PageBrowserTest, DrawsEveryChartOfOneRun) {
  const std::string log = folder_.write("run/dllogger.json", nemo_log(50));
  const std::string dom = drawn(log + " --num_accelerators 2 --max_flops 1e-6");
  EXPECT_TRUE(contains(dom, "data-drawn=\"6\""));
  EXPECT_EQ(occurrences(dom, "<figure"), 6);
  EXPECT_EQ(occurrences(dom, "class=\"curve"), 6);
  EXPECT_EQ(occurrences(dom, "NaN"), 0);                               // no coordinate went wrong
  EXPECT_TRUE(contains(dom, "from 10 at step 0 to 9.51 at step 49"));  // what a screen reader says
}

TEST_F(PageBrowserTest, DrawsSeveralRunsOfAnyLength) {
  std::string runs;
  for (const int64_t steps : {1, 10, 50, 20000})
    runs += folder_.write(fmt::format("run{}/dllogger.json", steps), nemo_log(steps)) + " ";
  const std::string dom = drawn(runs);
  EXPECT_TRUE(contains(dom, "data-drawn=\"5\""));
  EXPECT_EQ(occurrences(dom, "class=\"curve"), 20);
  EXPECT_EQ(occurrences(dom, "class=\"band"), 5);
  EXPECT_EQ(occurrences(dom, "=\"NaN"), 0);
}

TEST_F(PageBrowserTest, AnswersHandsAndKeys) {
  const std::string log = folder_.write("run/dllogger.json", nemo_log(50));
  const std::string dom = drawn(log, R"(
const chart = document.querySelector('figure svg[role=img]');
document.querySelector('figcaption button').click();                               // logarithmic
document.querySelectorAll('select')[1].value = '5';
document.querySelectorAll('select')[1].dispatchEvent(new Event('change'));         // smoothed
document.querySelectorAll('select')[0].value = 'tokens';
document.querySelectorAll('select')[0].dispatchEvent(new Event('change'));         // over tokens
for (const key of ['End', 'ArrowLeft', 'ArrowLeft']) chart.dispatchEvent(new KeyboardEvent('keydown', { key }));
document.body.dataset.tip = document.querySelector('.tip').textContent;
)");
  EXPECT_TRUE(contains(dom, "data-tip=\"step 47, 3.072k tokens9.53\""));
  EXPECT_TRUE(contains(dom, "class=\"curve faint\""));
  EXPECT_EQ(occurrences(dom, "=\"NaN"), 0);
}

TEST_F(PageBrowserTest, AFingerAsksForValues) {
  const std::string log = folder_.write("run/dllogger.json", nemo_log(50));
  const std::string dom = drawn(log, R"(
const chart = document.querySelector('figure svg[role=img]'), box = chart.getBoundingClientRect();
const touch = { pointerType: 'touch', clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
for (const kind of ['pointerdown', 'pointerup', 'pointerleave']) chart.dispatchEvent(new PointerEvent(kind, touch));
document.body.dataset.tip = document.querySelector('.tip').hidden ? 'none' : document.querySelector('.tip').textContent;
)");
  EXPECT_TRUE(contains(dom, "data-tip=\"step 2"));
}

TEST_F(PageBrowserTest, TablesOfManyRunsScrollOnAPhoneInsteadOfBreakingWords) {
  std::string runs;
  for (int run = 0; run < 5; ++run)
    runs += folder_.write(fmt::format("a-rather-long-name-{}/dllogger.json", run),
                          nemo_log(5, fmt::format(", \"cfg/optim/lr\": 0.00{}", run + 1))) +
            " ";
  for (const int width : {390, 1280}) {
    const std::string dom = drawn(runs, R"(
const cells = [...document.querySelectorAll('td.key')].filter(cell => cell.offsetWidth > 0);
document.body.dataset.narrowest = Math.min(...cells.map(cell => cell.offsetWidth)) >= 80 ? 'wide' : 'narrow';
document.body.dataset.page = document.documentElement.scrollWidth <= innerWidth ? 'fits' : 'overflows';
)",
                                  width);
    EXPECT_TRUE(contains(dom, "data-narrowest=\"wide\"")) << width;
    EXPECT_TRUE(contains(dom, "data-page=\"fits\"")) << width;
  }
}

TEST_F(PageBrowserTest, RunsNothingThatALogSays) {
  const std::string evil = "</script><script>document.title='pwned'</script><img src=x onerror=document.title='pwned'>";
  folder_.write("<b>x</script><script>document.title='pwned'<//dllogger.json",
                nemo_log(5, fmt::format(", \"cfg/{0}\": \"{0}\"", evil)) + dllogger_line("7", fmt::format("\"{}\": 1", evil)));
  const std::string dom = drawn("'" + (folder_ / "<b>x<").string() + "' --title \"" + evil + "\"");
  EXPECT_FALSE(contains(dom, "<title>pwned"));
  EXPECT_TRUE(contains(dom, "data-drawn=\"5\""));
}

TEST_F(PageBrowserTest, DrawsNothingFiniteWithoutAnError) {
  const std::string log =
      folder_.write("run/dllogger.json", dllogger_line("3", "\"reduced_train_loss\": NaN, \"grad_norm\": Infinity, \"lr\": 0") +
                                             dllogger_line("4", "\"reduced_train_loss\": NaN, \"lr\": 0"));
  const std::string dom = drawn(log, "for (const log of document.querySelectorAll('figcaption button')) log.click();");
  EXPECT_TRUE(contains(dom, "data-drawn=\"3\""));
  EXPECT_EQ(occurrences(dom, "=\"NaN"), 0);
}

}  // namespace
}  // namespace trireme
