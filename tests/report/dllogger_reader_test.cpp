#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "logs.h"
#include "report/readers.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

RunLog read(const std::string& text) {
  const TemporaryFolder folder;
  return read_dllogger(folder.write("dllogger.json", text));
}

TEST(DlloggerReader, ReadsStepsAndParameters) {
  const RunLog log = read(nemo_log(3));
  const Series* const loss = log.find("reduced_train_loss");
  ASSERT_NE(loss, nullptr);
  ASSERT_EQ(loss->points.size(), 3u);
  EXPECT_EQ(loss->points[2].step, 2);
  EXPECT_EQ(loss->points[2].value, 9.98);
  EXPECT_EQ(*log.parameter("model.global_batch_size"), 4);
  EXPECT_TRUE(log.parameter("model.kv_channels")->is_null());
  EXPECT_TRUE(log.notes.empty());
}

TEST(DlloggerReader, TakesEveryFormOfAStep) {
  const RunLog log =
      read(dllogger_line("[]", "\"loss\": 9") + dllogger_line("47", "\"loss\": 1") + dllogger_line("48.0", "\"loss\": 2") +
           dllogger_line("[49]", "\"loss\": 3") + dllogger_line("49.5", "\"loss\": 9") + dllogger_line("[0, 50]", "\"loss\": 9") +
           dllogger_line("\"summary\"", "\"loss\": 9"));
  const Series* const loss = log.find("loss");
  ASSERT_NE(loss, nullptr);
  ASSERT_EQ(loss->points.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loss->points[static_cast<size_t>(i)].step, 47 + i);
    EXPECT_EQ(loss->points[static_cast<size_t>(i)].value, static_cast<double>(1 + i));
  }
}

TEST(DlloggerReader, UnderstandsPythonsNumbersThatAreNone) {
  const RunLog log =
      read(dllogger_line("0", "\"a NaN\": NaN, \"b\": -Infinity, \"c\": Infinity, \"say \\\"NaN\\\"\": 4, \"d\": \"NaNs\""));
  EXPECT_TRUE(std::isnan(log.find("a NaN")->points[0].value));
  EXPECT_EQ(log.find("b")->points[0].value, -HUGE_VAL);
  EXPECT_EQ(log.find("c")->points[0].value, HUGE_VAL);
  EXPECT_EQ(log.find("say \"NaN\"")->points[0].value, 4);
  EXPECT_EQ(log.find("d"), nullptr);
}

TEST(DlloggerReader, ReadsEveryPrefixOfALogAndNotesTheTornEnd) {
  const std::string text = nemo_log(3);
  const size_t first = nemo_log(1).size();
  for (size_t size = first; size < text.size(); ++size) {
    const RunLog log = read(text.substr(0, size));
    const size_t lines = static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<int64_t>(size), '\n'));
    // A line that lacks nothing but its end is whole; its first four bytes alone are not yet a record.
    const bool whole = text[size] == '\n';
    const bool begun = size > 0 && text[size - 1] != '\n';
    EXPECT_EQ(log.find("reduced_train_loss")->points.size(), lines - 1 + whole) << size;
    EXPECT_EQ(log.notes.size(), begun && !whole ? 1u : 0u) << size;
  }
}

TEST(DlloggerReader, PassesOverWhatOthersWrote) {
  const RunLog log =
      read("Epoch 0: 100%\n\n" + nemo_step(0, 1, 1) + "DLLL {\"type\": \"METADATA\", \"metric\": \"x\", \"metadata\": {}}\n" +
           "DLLL {broken\n" + nemo_step(1, 2, 1) + "\r\n");
  EXPECT_EQ(log.find("reduced_train_loss")->points.size(), 2u);
  ASSERT_EQ(log.notes.size(), 2u);
  EXPECT_TRUE(contains(log.notes[0], "one line is not whole"));
  EXPECT_TRUE(contains(log.notes[1], "1 lines that do not begin with DLLL"));
}

TEST(DlloggerReader, OfARepeatedStepTheLastCounts) {
  const RunLog log = read(nemo_step(0, 5, 1) + nemo_step(1, 4, 1) + nemo_step(2, 3, 1) + nemo_step(1, 2, 1));
  const Series* const loss = log.find("reduced_train_loss");
  ASSERT_EQ(loss->points.size(), 3u);
  EXPECT_EQ(loss->points[1].value, 2);
  EXPECT_EQ(loss->points[2].value, 3);
}

TEST(DlloggerReader, AnswersOtherFilesInOneLine) {
  for (const std::string text :
       {"", "hello\n", "{}\n", "DLLL [1]\n", "DLLL {\"step\": 1}\n", "DLLL {\"step\": 1, \"data\": 4}\n"}) {
    const std::string message = message_of<UserError>([&] { read(text); });
    EXPECT_TRUE(contains(message, "dllogger.json")) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  read(dllogger_line("0", "\"loss\": 1") + "DLLL " + std::string(200000, '[') + "\n");  // deep nonsense is only a torn line
}

}  // namespace
}  // namespace trireme
