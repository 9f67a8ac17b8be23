// trireme launch: starts a run on one machine, Slurm or Kubernetes.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#include "cli/launch_commands.h"
#include "config/suggestions.h"
#include "launch/kubernetes/copy_results.h"
#include "launch/local/rank_start.h"
#include "launch/local/supervisor.h"
#include "launch/profile_rank.h"
#include "launch/slurm/supervisor.h"

namespace trireme {
namespace {

constexpr const char* kCommandLine = "command line";

// Adds an option of the table to the command line of a target.
void add_launch_option(CLI::App& command, const LaunchOption& option, GivenOptions& given) {
  const std::string flag = fmt::format("--{}", option.name);
  const auto note = [&given, name = option.name](const auto&) { given.places[name] = kCommandLine; };
  CLI::Option* added = nullptr;
  if (const auto* text = std::get_if<std::string LaunchOptions::*>(&option.member)) {
    added = command.add_option(flag, given.values.*(*text), std::string(option.help));
  } else if (const auto* number = std::get_if<int64_t LaunchOptions::*>(&option.member)) {
    added = command.add_option(flag, given.values.*(*number), std::string(option.help))->check(CLI::NonNegativeNumber);
  } else if (const auto* texts = std::get_if<Texts LaunchOptions::*>(&option.member)) {
    added = command.add_option(flag, given.values.*(*texts), std::string(option.help))->allow_extra_args(false);
  } else {
    bool& value = given.values.*(std::get<bool LaunchOptions::*>(option.member));
    const std::string name = value ? fmt::format("--no-{}", option.name) : flag;
    const std::string help = value ? fmt::format("not: {}", option.help) : std::string(option.help);
    command.add_flag_callback(
        name,
        [&given, &value, name = option.name] {
          value = !value;
          given.places[name] = kCommandLine;
        },
        help);
    return;
  }
  added->type_name(std::string(option.value))->each(note);
}

// --container RUNTIME IMAGE sets two options.
void add_container_option(CLI::App& command, GivenOptions& given) {
  command
      .add_option_function<std::pair<std::string, std::string>>(
          "--container",
          [&given](const std::pair<std::string, std::string>& words) {
            given.values.container = words.first;
            given.values.image = words.second;
            given.places["container"] = given.places["image"] = kCommandLine;
          },
          "start the run in a container: docker, podman, ctr or enroot, and the image")
      ->type_name("RUNTIME IMAGE");
}

const char* examples_of(TargetKind target) {
  switch (target) {
    case TargetKind::local:
      return "Start a run on this machine.\n\n"
             "examples:  trireme launch local demo --ranks 2\n"
             "           trireme launch local demo --ranks 2 --name night --detach\n"
             "           trireme launch local demo --sweep model.micro_batch_size=1,2 trainer.max_steps=20 --dry-run\n";
    case TargetKind::slurm:
      return "Start a run on Slurm.\n\n"
             "examples:  trireme launch slurm gpt3/175b --nodes 16 --partition gpu --dry-run\n"
             "           trireme launch slurm gpt3/5b --nodes 8 --spares 1 --time 4:00:00 --wait\n";
    default:
      return "Start a run on Kubernetes.\n\n"
             "examples:  trireme launch kubernetes gpt3/175b --nodes 32 --image IMAGE --network tcpxo --dry-run\n";
  }
}

void add_target(CLI::App& launch_command, TargetKind target, int& status) {
  auto arguments = std::make_shared<LaunchArguments>();
  LaunchRequest& request = arguments->request;
  request.target = target;
  CLI::App* command = launch_command.add_subcommand(name_of(target), examples_of(target));
  command->add_option("recipe", request.recipe,
                      "a shipped recipe (trireme recipes lists them), the path of a YAML file or of a launcher's conf folder");
  command->add_option("overrides", request.overrides, "settings as key=value (trireme config --keys lists them)");
  for (const LaunchOption& option : launch_option_table()) {
    if (!is_for(option, target)) continue;
    if (option.name == "container")
      add_container_option(*command, request.options);
    else
      add_launch_option(*command, option, request.options);
  }
  command->add_option("--site", arguments->site,
                      "the site file; without it TRIREME_SITE or ~/.config/trireme/site.yaml, if there is one");
  command->add_option("--save", arguments->save, "write this launch to a file that trireme launch FILE repeats");
  command->add_flag("--dry-run", arguments->dry_run, "print what would be submitted and why, and stop");
  if (target == TargetKind::local)
    command->add_flag("--detach", arguments->detach, "return at once; the run continues without this terminal");
  else
    command->add_flag("--wait", arguments->wait, "follow the log until the run ends");
  if (target == TargetKind::slurm)
    command->add_flag("--no-submit", arguments->no_submit, "write the files, and do not submit them");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->callback([arguments, &status] { status = launch(*arguments); });
}

// The supervisor of a launch on this machine, and what it starts as each rank.
void add_local_commands(CLI::App& launch_command, int& status) {
  auto options = std::make_shared<SuperviseOptions>();
  CLI::App* supervisor = launch_command.add_subcommand("supervise", "Look after a launch on this machine.");
  supervisor->group("");
  supervisor->add_option("file", options->launch_file, "what to start: local.json in the folder of the launch")->required();
  supervisor->add_option("--leash", options->leash, "a descriptor: the socket to the command that started this");
  supervisor->add_option("--job", options->job, "in a container: run this job once, as long as stdin is open");
  supervisor->add_flag("--resume", options->resumes, "with --job: continue from the newest checkpoint");
  supervisor->callback([options, &status] { status = supervise(*options); });

  auto rank = std::make_shared<StartedRank>();
  CLI::App* starter = launch_command.add_subcommand("start-rank", "Become a rank of a launch on this machine.");
  starter->group("");
  starter->add_option("file", rank->launch_file, "local.json in the folder of the launch")->required();
  starter->add_option("job", rank->job, "the name of the job")->required();
  starter->add_option("socket", rank->socket, "of the supervisor")->required();
  starter->add_flag("--resume", rank->resumes, "continue from the newest checkpoint");
  starter->callback([rank] { become_rank(*rank); });
}

// What the pods of the Helm chart start; not for users.
void add_copy_results(CLI::App& launch_command, int& status) {
  auto copy = std::make_shared<CopyResults>();
  CLI::App* command = launch_command.add_subcommand("copy-results", "Run a command and copy its run folder while it runs.");
  command->group("");
  command->add_option("from", copy->from, "a folder")->required();
  command->add_option("to", copy->to, "a folder, s3://, gs:// or az://")->required();
  command->add_option("--every", copy->seconds, "seconds between copies")->check(CLI::PositiveNumber);
  command->add_option("command", copy->command, "after --, what to run; without it copies once");
  command->callback([copy, &status] { status = copy_results(*copy); });
}

// What the supervisor of a node starts; not for users.
void add_hidden_commands(CLI::App& launch_command, int& status) {
  add_local_commands(launch_command, status);
  auto profile = std::make_shared<ProfileRank>();
  CLI::App* command =
      launch_command.add_subcommand("profile-rank", "Run a command under nsys if its rank is one of those named.");
  command->group("");
  command->add_option("--ranks", profile->ranks, "as in 0,8")->required()->delimiter(',');
  command->add_option("--output", profile->folder, "a folder")->required();
  command->add_option("--trace", profile->trace, "what nsys records");
  command->add_option("command", profile->command, "what to run")->required();
  command->positionals_at_end();
  command->callback([profile, &status] { status = exec_profiled(*profile); });
}

// What the batch script of a Slurm job becomes, and what it starts on another node of its job.
void add_slurm_commands(CLI::App& launch_command, int& status) {
  auto job = std::make_shared<SupervisedJob>();
  CLI::App* supervise = launch_command.add_subcommand("slurm-supervise", "Start the attempts of a job inside its allocation.");
  supervise->group("");
  supervise->add_option("--folder", job->folder, "of logs and state")->required();
  supervise->add_option("--run-folder", job->run_folder, "of the training");
  supervise->add_option("--task", job->task, "of an array");
  supervise->add_option("--nodes", job->nodes, "of the run");
  supervise->add_option("--max-restarts", job->max_restarts, "attempts without a new checkpoint");
  supervise->add_option("--save-seconds", job->save_seconds, "that ranks get to save before the time limit");
  supervise->add_flag("--spares", job->has_spares, "the allocation has more nodes than the run");
  supervise->add_flag("--requeue", job->may_requeue, "Slurm may start the job again");
  supervise->add_flag("--resume", job->resume, "the first attempt continues a run");
  supervise->add_option("--check-nodes", job->check_words, "check the nodes first; so many words of the step are srun's");
  supervise->add_option("step", job->step, "srun and its arguments")->required();
  supervise->positionals_at_end();
  supervise->callback([job, &status] { status = supervise_slurm_job(*job); });

  auto deputy = std::make_shared<SlurmDeputy>();
  CLI::App* watch = launch_command.add_subcommand("slurm-deputy", "Put a job back into the queue if its first node fails.");
  watch->group("");
  watch->add_option("--job", deputy->job, "its number")->required();
  watch->add_option("--host", deputy->host, "the node of its supervisor")->required();
  watch->add_option("--seconds", deputy->seconds, "between questions");
  watch->add_flag("--requeue", deputy->may_requeue, "else it is cancelled");
  watch->callback([deputy, &status] { status = watch_supervisor_node(*deputy); });
}

void add_management(CLI::App& command, ManageArguments& arguments) {
  command.add_flag("--list", arguments.list, "the launches of a results folder, and how they are");
  command.add_option("--status", arguments.status, "how a launch is, job by job")->type_name("RUN");
  command.add_option("--logs", arguments.logs, "print the log of a launch")->type_name("RUN");
  command.add_option("--rank", arguments.rank, "with --logs: of one rank")->type_name("N");
  command.add_flag("--follow", arguments.follow, "with --logs: until the launch ends");
  command.add_option("--fetch", arguments.fetch, "copy the files of a launch to this folder")->type_name("RUN");
  command.add_option("--stop", arguments.stop, "stop a launch and remove what it made on the cluster")->type_name("RUN");
  command.add_option("--results", arguments.results, "the results folder; without it that of the site, else runs")
      ->type_name("FOLDER");
  command.add_flag("--json", arguments.json, "print the result as JSON");
}

// The word after trireme launch: a launch file, or with --fetch which files.
int launch_or_manage(const LaunchArguments& flags, ManageArguments manage, const std::string& word) {
  const LaunchRequest& given = flags.request;
  if (manage.is_given()) {
    if (!word.empty() && manage.fetch.empty()) throw UserError("{}: only --fetch takes a further word, the files to copy", word);
    if (!given.overrides.empty()) throw UserError("{}: settings are for a launch file", given.overrides.front());
    manage.glob = word;
    return manage_launches(manage);
  }
  if (word.empty())
    throw UserError("what to launch? trireme launch local RECIPE, trireme launch FILE, or trireme launch --list; see --help");
  if (const auto target = find_target(word)) throw UserError("{} must follow launch at once", name_of(*target));
  if (std::error_code failed; !std::filesystem::exists(word, failed))
    throw UserError("{} is neither a target nor a launch file{}; use local, slurm, kubernetes or a file that --save wrote", word,
                    did_you_mean(word, {"local", "slurm", "kubernetes"}));
  LaunchArguments arguments = flags;
  arguments.request = read_launch_file(word);
  arguments.repeats = !given.options.has("name");
  arguments.request.overrides.insert(arguments.request.overrides.end(), given.overrides.begin(), given.overrides.end());
  GivenOptions options = given.options;
  add_below(options, arguments.request.options);
  arguments.request.options = std::move(options);
  arguments.json = manage.json;
  return launch(std::move(arguments));
}

}  // namespace

void add_launch_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<LaunchArguments>();
  auto manage = std::make_shared<ManageArguments>();
  auto word = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("launch",
                                         "Start runs on this machine, Slurm or Kubernetes, and look after them.\n\n"
                                         "examples:  trireme launch local demo --ranks 2\n"
                                         "           trireme launch slurm gpt3/175b --nodes 16 --partition gpu --dry-run\n"
                                         "           trireme launch --list\n");
  command->require_subcommand(0, 1);
  command->add_option("file", *word, "a launch file that --save wrote; with --fetch the files to copy, as in '*.json'");
  command->add_option("overrides", flags->request.overrides, "with a launch file: further settings as key=value");
  add_management(*command, *manage);
  for (const char* name : {"name", "resume"}) add_launch_option(*command, *find_launch_option(name), flags->request.options);
  command->add_option("--site", flags->site, "with a launch file: the site file");
  command->add_flag("--dry-run", flags->dry_run, "with a launch file: print what would be submitted and why, and stop");
  command->add_flag("--detach", flags->detach, "with a launch file: return at once");
  command->add_flag("--wait", flags->wait, "with a launch file: follow the log until the run ends");
  for (const TargetKind target : {TargetKind::local, TargetKind::slurm, TargetKind::kubernetes})
    add_target(*command, target, status);
  add_hidden_commands(*command, status);
  add_slurm_commands(*command, status);
  add_copy_results(*command, status);
  command->callback([=, &status] {
    if (command->get_subcommands().empty()) status = launch_or_manage(*flags, *manage, *word);
  });
}

}  // namespace trireme
