#include "train/run_watch.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/stack_dump.h"
#include "comm/control.h"
#include "telemetry/text_log.h"
#include "train/post_mortem.h"
#include "train/replica_check.h"

namespace trireme {
namespace {

std::vector<int> stages_of(const MeshShape& shape) {
  std::vector<int> stages;
  for (int rank = 0; rank < shape.size(); ++rank) stages.push_back(rank / (shape.tp * shape.cp * shape.dp));
  return stages;
}

std::string names_of(const std::vector<int>& ranks, const Control& control) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(control.name_of(rank));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

RunWatch::RunWatch(RunSetup& setup, RunLogs& logs) : setup_(setup), logs_(logs), stragglers_(stages_of(setup.place.shape)) {
  Control& control = setup.control;
  const std::filesystem::path file = setup.folder.file(kGoodputName);
  const int64_t number =
      std::stoll(control.share("attempt", setup.is_first() ? fmt::format("{}", next_attempt_number(file)) : ""));
  recorder_ = std::make_shared<AttemptRecorder>(file, number, control.size(), control.activity(),
                                                setup.is_first() ? RecordWriter::yes : RecordWriter::no);
  PostMortem post_mortem{.folder = setup.folder, .attempt = number, .rank_logs = {}, .command = setup.request.command};
  for (int rank = 0; rank < control.size(); ++rank)
    post_mortem.rank_logs.push_back(text_log_name(rank, local_rank_of(control.places(), rank)));
  const std::string place = "post-mortem: " + post_mortem.path().string();
  // Does not refer to this object, which the failure may destroy.
  report_ = [recorder = recorder_, post_mortem = std::move(post_mortem), &control](const JobEnd& end) {
    recorder->note_failure(end);
    post_mortem.write(end, control.seen());
  };
  control.set_end_report({.place = place, .write = report_, .hangs = StackDump::request});
}

void RunWatch::begin_training(int64_t first_step) {
  first_step_ = first_step;
  recorder_->begin_training(first_step);
  if (recorder_->number() > 1 && setup_.is_first())
    logs_.say(fmt::format("attempt {} of this run, until now {}", recorder_->number(), recorder_->time().text()));
}

void RunWatch::note_step(int64_t steps_done) {
  recorder_->note_step(steps_done);
  if (has_stepped_ || steps_done <= first_step_) return;
  has_stepped_ = true;
  if (recorder_->number() > 1 && setup_.is_first())
    logs_.say(fmt::format("{}{} is done: step {}", kFirstStepOfAttempt, recorder_->number(), first_step_));
}

void RunWatch::note_failure(const std::exception& error) {
  if (setup_.world.size() > 1 || dynamic_cast<const UserError*>(&error) != nullptr) return;
  report_({.line = line_of(error), .rank = 0});
}

// ------------------------------------------------------------------------------------------------------------- stragglers

void RunWatch::begin_compute(double data_wait) {
  compute_begun_ = system_clock().seconds();
  waited_before_ = data_wait + (setup_.world.streams() == nullptr ? 0 : setup_.world.progress().waited_seconds());
}

double RunWatch::end_compute(double data_wait) const {
  if (setup_.backend.runs_ahead() || setup_.world.streams() == nullptr) return 0;
  const double waited = data_wait + setup_.world.progress().waited_seconds() - waited_before_;
  return std::max(system_clock().seconds() - compute_begun_ - waited, 0.0);
}

void RunWatch::find_stragglers(const std::vector<StepVote>& votes, int64_t step, double step_seconds) {
  if (!setup_.is_first() || votes.size() == 1) return;
  std::vector<double> compute;
  for (const StepVote& vote : votes) compute.push_back(vote.compute_seconds);
  for (const StragglerFinding& finding : stragglers_.step(compute, step_seconds)) {
    const std::string line = fmt::format("{} {}", setup_.control.name_of(finding.rank), finding.text());
    if (finding.kind == StragglerFinding::Kind::slow)
      logs_.warn(line);
    else
      logs_.say(line);
    straggler_notes_.push_back({.step = step, .finding = finding});
  }
}

// --------------------------------------------------------------------------------------------------------------- replicas

bool RunWatch::checks_replicas_after(int64_t steps_done) const {
  const int64_t interval = setup_.settings.trainer.replica_check_interval;
  return setup_.mesh.dp_cp->size() > 1 && interval > 0 && steps_done % interval == 0;
}

void RunWatch::check_replicas(const Engine& engine, int64_t steps_done) {
  if (setup_.settings.trainer.replica_check_interval == 0) return;
  const MeshShape& shape = setup_.place.shape;
  if (shape.dp * shape.cp == 1) return;
  std::vector<uint32_t> checksums;
  for (const StepVote& vote : setup_.agreement.exchange({.checksum = weights_checksum(engine)}))
    checksums.push_back(vote.checksum);
  const std::vector<ReplicaDifference> differences = replica_differences(shape, checksums);
  if (differences.empty()) return;
  const auto& [ranks, replicas, is_majority] = differences.front();
  const std::string names = names_of(ranks, setup_.control);
  if (is_majority)
    throw Failure(
        "the weights of {} differ from those of its {} replicas after step {}: memory or a device of its machine is bad", names,
        replicas.size() - ranks.size(), steps_done);
  throw Failure("the weights of {} should be equal after step {} and are not: memory or a device of one of them is bad", names,
                steps_done);
}

// -------------------------------------------------------------------------------------------------------------------- end

void RunWatch::note_save(double exposed_seconds) {
  saves_.count += 1;
  saves_.exposed_seconds += exposed_seconds;
  saves_.most_exposed_seconds = std::max(saves_.most_exposed_seconds, exposed_seconds);
}

void RunWatch::add_to(RunEnd& end) {
  end.time = recorder_->time();
  end.stragglers = straggler_notes_;
  end.saves = saves_;
}

}  // namespace trireme
