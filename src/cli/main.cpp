#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <system_error>
#include <thread>

#include "base/build_info.h"
#include "base/error.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/help_format.h"
#include "cli/usage_error.h"
#include "comm/world.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("trireme trains and benchmarks GPT-3-class language models.\n\nexample:  trireme train demo", "trireme");
  app.set_version_flag("--version", fmt::format("trireme {} ({})", trireme::kVersion, trireme::kCommit));
  app.require_subcommand(1);
  app.formatter(std::make_shared<trireme::HelpFormat>());
  int status = trireme::kDone;
  trireme::add_train_command(app, status);
  trireme::add_finetune_command(app, status);
  trireme::add_launch_command(app, status);
  trireme::add_generate_command(app, status);
  trireme::add_config_command(app, status);
  trireme::add_validate_command(app, status);
  trireme::add_plan_command(app, status);
  trireme::add_recipes_command(app, status);
  trireme::add_data_command(app, status);
  trireme::add_metrics_command(app, status);
  trireme::add_report_command(app, status);
  trireme::add_evaluate_command(app, status);
  trireme::add_serve_command(app, status);
  trireme::add_watch_command(app, status);
  trireme::add_export_command(app, status);
  trireme::add_import_command(app, status);
  trireme::add_completion_commands(app, status);
  trireme::add_man_command(app, status);
  const std::span words = std::span(argv, static_cast<size_t>(argc)).subspan(1);
  try {
    trireme::require_known_command(app, words);
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    if (trireme::rank_in_environment() != 0) {
      // Every rank finds the same error and the first rank reports it. The others wait, because a launcher may kill the first
      // rank as soon as one exits.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return trireme::kUserError;
    }
    throw trireme::UserError("{}", trireme::usage_error_text(app, words, error));
  }
  return status;
}

// Output may still be buffered; a full disk shows only when it is flushed.
void require_output_written() {
  errno = 0;
  const bool is_written = std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!is_written)
    throw trireme::Failure("stdout cannot be written{}{}", errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then a failed write, which is reported in one line
  const auto complain = [](const char* text, int status) {
    fmt::print(stderr, "{} {}\n", inked(trireme::Ink::red, "trireme:", trireme::detect_terminal(STDERR_FILENO)), text);
    return status;
  };
  try {
    const int status = run(argc, argv);
    require_output_written();
    return status;
  } catch (const trireme::UserError& error) {
    return complain(error.what(), trireme::kUserError);
  } catch (const std::system_error& error) {
    const bool is_output = std::ferror(stdout) != 0;
    return complain(is_output ? fmt::format("stdout cannot be written: {}", error.code().message()).c_str() : error.what(),
                    trireme::kFailed);
  } catch (const std::exception& error) {
    return complain(trireme::line_of(error).c_str(), trireme::kFailed);
  }
}
