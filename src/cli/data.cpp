// trireme data: converts text to tokens and inspects both.
#include "cli/data_commands.h"

namespace trireme {

void add_data_command(CLI::App& app, int& status) {
  CLI::App* data = app.add_subcommand("data",
                                      "Prepare and inspect training data.\n\n"
                                      "example:  echo 'Hello world' | trireme data encode --tokenizer bytes\n");
  data->require_subcommand(1);
  for (const auto add :
       {add_data_encode_command, add_data_decode_command, add_data_train_tokenizer_command, add_data_fetch_command,
        add_data_push_command, add_data_run_command, add_data_prepare_command, add_data_inspect_command, add_data_verify_command,
        add_data_merge_command, add_data_split_command, add_data_index_command, add_data_sample_command})
    add(*data, status);
}

}  // namespace trireme
