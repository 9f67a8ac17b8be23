// The commands of the program. Each file of this folder adds one command to the parser and runs it.
#pragma once

#include <CLI/CLI.hpp>

#include "base/exit_status.h"

namespace trireme {

// Each callback sets `status`. Callbacks throw UserError and Failure; main turns those into one line and an exit status.
void add_train_command(CLI::App& app, int& status);
void add_finetune_command(CLI::App& app, int& status);
void add_launch_command(CLI::App& app, int& status);
void add_generate_command(CLI::App& app, int& status);
void add_config_command(CLI::App& app, int& status);
void add_validate_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_recipes_command(CLI::App& app, int& status);
void add_data_command(CLI::App& app, int& status);
void add_metrics_command(CLI::App& app, int& status);
void add_report_command(CLI::App& app, int& status);
void add_evaluate_command(CLI::App& app, int& status);
void add_serve_command(CLI::App& app, int& status);
void add_watch_command(CLI::App& app, int& status);
void add_export_command(CLI::App& app, int& status);
void add_import_command(CLI::App& app, int& status);
void add_completion_commands(CLI::App& app, int& status);
void add_man_command(CLI::App& app, int& status);

}  // namespace trireme
