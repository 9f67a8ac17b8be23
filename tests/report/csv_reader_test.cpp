#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "report/quantities.h"
#include "report/readers.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

RunLog read(const std::string& text) {
  const TemporaryFolder folder;
  return read_metrics_csv(folder.write("metrics.csv", text));
}

// As Lightning's logger writes LitGPT's metrics: a row per call, so that most cells are empty; CRLF, as Python's csv module has
// it.
TEST(CsvReader, ReadsSparseColumns) {
  const RunLog log = read(
      "epoch,step,throughput/device/mfu,throughput/tokens_per_sec,time/train,train_loss,val_loss\r\n"
      ",10,,,100.0,,\r\n"
      "0,10,,,,10.5,\r\n"
      ",11,0.41,64000.0,102.5,,\r\n"
      "0,11,,,,9.5,\r\n"
      "0,11,,,,,9.75\r\n"
      ",13,0.42,65000.0,106.5,nan,\r\n");
  const Series* const loss = log.find("train_loss");
  ASSERT_EQ(loss->points.size(), 3u);
  EXPECT_EQ(loss->points[0].value, 10.5);
  EXPECT_TRUE(std::isnan(loss->points[2].value));
  EXPECT_EQ(log.find("val_loss")->points.size(), 1u);
  EXPECT_EQ(log.find("step"), nullptr);

  // Step times follow from time/train: 2.5 s, then 4 s for two steps.
  const std::optional<Series> seconds = find_quantity(log, {}, Quantity::step_seconds);
  ASSERT_TRUE(seconds);
  ASSERT_EQ(seconds->points.size(), 2u);
  EXPECT_EQ(seconds->points[0].step, 11);
  EXPECT_EQ(seconds->points[0].value, 2.5);
  EXPECT_EQ(seconds->points[1].step, 13);
  EXPECT_EQ(seconds->points[1].value, 2.0);
  EXPECT_EQ(find_quantity(log, {}, Quantity::mfu)->points[1].value, 0.42);
}

TEST(CsvReader, UnderstandsQuotes) {
  const RunLog log = read("step,\"a, \"\"b\"\"\",text\n1,2.5,\"no\nnumber\"\n\n2,\"3.5\",x\n");
  ASSERT_NE(log.find("a, \"b\""), nullptr);
  EXPECT_EQ(log.find("a, \"b\"")->points.size(), 2u);
  EXPECT_EQ(log.find("text"), nullptr);
}

TEST(CsvReader, LeavesOutATornRowAndNotesIt) {
  const RunLog log = read("step,loss\n1,2.5\n2,0.1");
  EXPECT_EQ(log.find("loss")->points.size(), 1u);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_TRUE(contains(log.notes[0], "last row"));
  EXPECT_TRUE(contains(read("step,loss\n1,2.5\n2\n,4\n3,3,3\n").notes.at(0), "3 rows"));
}

TEST(CsvReader, AnswersOtherFilesInOneLine) {
  EXPECT_TRUE(contains(message_of<UserError>([] { read(""); }), "no header"));
  EXPECT_TRUE(contains(message_of<UserError>([] { read("a,b\n1,2\n"); }), "no column that numbers its rows"));
  EXPECT_TRUE(contains(message_of<UserError>([] { read("step,loss\n"); }), "no row"));
  EXPECT_TRUE(contains(message_of<UserError>([] { read("step,loss\n1e300,2\n"); }), "no row"));
}

}  // namespace
}  // namespace trireme
