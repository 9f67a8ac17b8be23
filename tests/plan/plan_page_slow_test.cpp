// The page of `trireme plan --html` in headless Chromium.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "support/browser.h"

namespace trireme {
namespace {

class PlanPageBrowserTest : public BrowserTest {
 protected:
  std::string drawn(const std::string& run, const std::string& then = "", int width = 1280) {
    const std::string page = folder_ / "plan.html";
    const ProgramResult made = run_program("plan " + run + " --html " + page);
    EXPECT_EQ(made.status, 0) << made.output;
    return dom_of(page, then, width);
  }
};

constexpr const char* kRun = "gpt3/175b --cluster dgx-h100 --nodes 16 model.global_batch_size=64";

// Reads back what is on the canvas: how many pixels of a row are of the colours of forward and backward.
TEST_F(PlanPageBrowserTest, DrawsEveryStage) {
  const std::string dom = drawn(kRun, R"(
const canvas = document.querySelector('canvas'), ratio = canvas.width / canvas.clientWidth, pen = canvas.getContext('2d');
const colours = row => {
  const pixels = pen.getImageData(70 * ratio, (row * 24 + 3) * ratio, canvas.width - 90 * ratio, 1).data, seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) seen.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
  return seen.size;
};
document.body.dataset.stages = [...Array(8).keys()].filter(row => colours(row) > 10).length;
)");
  EXPECT_NE(dom.find("data-stages=\"8\""), std::string::npos);
  EXPECT_NE(dom.find("data-drawn=\"0 "), std::string::npos);
  EXPECT_EQ(dom.find("NaN"), std::string::npos);
}

TEST_F(PlanPageBrowserTest, ZoomsAndSaysWhatIsUnderThePointer) {
  const std::string dom = drawn(kRun, R"(
const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect();
const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true });
canvas.setPointerCapture = () => {};
canvas.dispatchEvent(new PointerEvent('pointermove', at(63, 5)));
document.body.dataset.tip = document.querySelector('.tip').textContent;
const whole = canvas.dataset.drawn;
canvas.dispatchEvent(new PointerEvent('pointerdown', at(300, 5)));
canvas.dispatchEvent(new PointerEvent('pointermove', at(500, 5)));
canvas.dispatchEvent(new PointerEvent('pointerup', at(500, 5)));
document.body.dataset.zoomed = canvas.dataset.drawn !== whole && !canvas.dataset.drawn.startsWith('0 ');
canvas.dispatchEvent(new MouseEvent('dblclick'));
document.body.dataset.back = canvas.dataset.drawn === whole;
document.querySelectorAll('figure button')[2].click();
document.body.dataset.end = canvas.dataset.drawn.split(' ')[1] === whole.split(' ')[1] && canvas.dataset.drawn !== whole;
)");
  EXPECT_NE(dom.find("data-tip=\"stage 0, chunk 0: forward of micro-batch 0, "), std::string::npos);
  for (const char* said : {"data-zoomed=\"true\"", "data-back=\"true\"", "data-end=\"true\""})
    EXPECT_NE(dom.find(said), std::string::npos) << said;
}

TEST_F(PlanPageBrowserTest, FitsAPhone) {
  const std::string dom = drawn(kRun, "document.body.dataset.page = document.documentElement.scrollWidth <= innerWidth;", 390);
  EXPECT_NE(dom.find("data-page=\"true\""), std::string::npos);
}

}  // namespace
}  // namespace trireme
