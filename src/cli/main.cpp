#include <fmt/format.h>
#include <version.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "comm/world.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("trireme trains and benchmarks GPT-3-class language models.\n\nexample:  trireme train demo", "trireme");
  app.set_version_flag("--version", fmt::format("trireme {} ({})", TRIREME_VERSION, TRIREME_COMMIT));
  app.require_subcommand(1);
  int status = trireme::kDone;
  trireme::add_train_command(app, status);
  trireme::add_generate_command(app, status);
  trireme::add_config_command(app, status);
  trireme::add_recipes_command(app, status);
  trireme::add_data_command(app, status);
  trireme::add_metrics_command(app, status);
  trireme::add_report_command(app, status);
  trireme::add_export_command(app, status);
  trireme::add_import_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    if (trireme::rank_in_environment() != 0) {
      // Every rank finds the same mistake; the first says it, and must not be killed because this one left before.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return trireme::kUserError;
    }
    throw trireme::UserError("{}; see trireme --help", error.what());
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const auto complain = [](const char* text, int status) {
    fmt::print(stderr, "trireme: {}\n", text);
    return status;
  };
  try {
    return run(argc, argv);
  } catch (const trireme::UserError& error) {
    return complain(error.what(), trireme::kUserError);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", trireme::kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), trireme::kFailed);
  }
}
