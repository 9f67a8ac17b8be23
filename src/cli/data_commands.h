// The commands under `trireme data`, each in a file data_*.cpp of this folder.
#pragma once

#include "cli/command.h"

namespace trireme {

void add_data_encode_command(CLI::App& data, int& status);
void add_data_decode_command(CLI::App& data, int& status);
void add_data_train_tokenizer_command(CLI::App& data, int& status);
void add_data_fetch_command(CLI::App& data, int& status);
void add_data_push_command(CLI::App& data, int& status);
void add_data_run_command(CLI::App& data, int& status);
void add_data_prepare_command(CLI::App& data, int& status);
void add_data_inspect_command(CLI::App& data, int& status);
void add_data_verify_command(CLI::App& data, int& status);
void add_data_merge_command(CLI::App& data, int& status);
void add_data_split_command(CLI::App& data, int& status);
void add_data_index_command(CLI::App& data, int& status);
void add_data_sample_command(CLI::App& data, int& status);

}  // namespace trireme
