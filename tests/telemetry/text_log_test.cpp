#include "telemetry/text_log.h"

#include <gtest/gtest.h>

#include "fixtures.h"

namespace trireme {
namespace {

class TextLog : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
    clock.now_unix = 1'694'471'488'123'456;  // 2023-09-11 22:31:28
  }
  TemporaryFolder folder;
  std::string all = folder / "all.txt", errors = folder / "errors.txt";
  ManualClock clock;
};

TEST_F(TextLog, Names) { EXPECT_EQ(text_log_name(9, 1), "nemo_log_globalrank-9_localrank-1.txt"); }

TEST_F(TextLog, LinesAsNemoWritesThem) {
  TextLogSink sink(all, errors, 300, {}, clock);
  sink.message(Severity::info, "model   12 layers");
  sink.step(ordinary_record(119));
  sink.message(Severity::warning, "the disk is full");
  sink.finish({.outcome = RunOutcome::failed, .steps_done = 120, .reason = "two\nlines"});
  EXPECT_EQ(
      contents_of(all),
      "[NeMo I 2023-09-11 22:31:28 train:0] model   12 layers\n"
      "[NeMo I 2023-09-11 22:31:28 train:120] step  120/300  loss  2.3412  grad   0.840  lr 2.93e-03   64.1 ms   31.9k tok/s"
      "    0.21 TFLOP/s  MFU 41.3%  eta 0:12\n"
      "[NeMo W 2023-09-11 22:31:28 train:120] the disk is full\n"
      "[NeMo E 2023-09-11 22:31:28 train:120] two\n    lines\n");
  EXPECT_EQ(contents_of(errors),
            "[NeMo W 2023-09-11 22:31:28 train:120] the disk is full\n"
            "[NeMo E 2023-09-11 22:31:28 train:120] two\n    lines\n");
}

TEST_F(TextLog, ARemarkableStepIsAWarningEvenBetweenTheLoggedOnes) {
  TextLogSink sink(all, errors, 300, {}, clock);
  StepRecord record = ordinary_record(3);
  record.logged = false;
  sink.step(record);
  EXPECT_EQ(contents_of(all), "");
  record.skipped = true;
  record.nonfinite_where = "grad of blocks.1.mlp.up.weight is NaN";
  sink.step(record);
  EXPECT_NE(contents_of(errors).find("SKIPPED grad of blocks.1.mlp.up.weight is NaN"), std::string::npos);
}

TEST_F(TextLog, GoesOnAfterATornLine) {
  std::ofstream(all) << "[NeMo I whole]\n[NeMo I to";
  TextLogSink sink(all, errors, 300, {}, clock);
  sink.message(Severity::info, "next");
  EXPECT_EQ(contents_of(all), "[NeMo I whole]\n[NeMo I 2023-09-11 22:31:28 train:0] next\n");
}

TEST_F(TextLog, LightningsProgressAndItsWordsAtTheEnd) {
  LightningLogSink sink(all, 40, {}, clock);
  StepRecord record = ordinary_record(15);
  record.mean_step_seconds = 0.8;
  clock.now_seconds = 75;
  sink.step(record);
  sink.finish({.outcome = RunOutcome::finished, .steps_done = 40});
  EXPECT_EQ(contents_of(all),
            "Epoch 0:  40%|####      | 16/40 [01:15<00:19, 1.25it/s, v_num=, reduced_train_loss=2.34, global_step=15.00, "
            "consumed_samples=128.0]\n"
            "`Trainer.fit` stopped: `max_steps=40` reached.\n");
}

}  // namespace
}  // namespace trireme
