// A plugin for Slurm in tests that stands in for pyxis: the options of srun that launches use, and a container with a mount
// namespace of its own whose root is unpacked from the squashfs image, once per step and node.
#define _GNU_SOURCE
#include <limits.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(trireme_container, 1);

enum { kImage, kMounts, kWorkFolder, kEnvironment, kNoHome, kOptions };
static char values[kOptions][PATH_MAX];

static int take(int option, const char* text, int remote) {
  (void)remote;
  snprintf(values[option], sizeof values[option], "%s", text == NULL ? "yes" : text);
  return 0;
}

static struct spank_option options[] = {
    {"container-image", "FILE", "the squashfs image that the tasks start in", 1, kImage, take},
    {"container-mounts", "SRC:DST[,...]", "folders of the node", 1, kMounts, take},
    {"container-workdir", "FOLDER", "working folder in the container", 1, kWorkFolder, take},
    {"container-env", "NAME[,...]", "variables that win over the image's", 1, kEnvironment, take},
    {"no-container-mount-home", NULL, "leave out the home folder", 0, kNoHome, take},
    SPANK_OPTIONS_TABLE_END};

int slurm_spank_init(spank_t spank, int count, char** words) {
  (void)count, (void)words;
  for (int i = 0; i < kOptions; ++i)
    if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS) return -1;
  return 0;
}

// The folder of a step on a node.
static void find_root(spank_t spank, char* root, size_t size) {
  uint32_t job = 0, step = 0, node = 0;
  spank_get_item(spank, S_JOB_ID, &job);
  spank_get_item(spank, S_JOB_STEPID, &step);
  spank_get_item(spank, S_JOB_NODEID, &node);
  snprintf(root, size, "/tmp/trireme-container-%d-%u-%u-%u", getppid(), job, step, node);
}

static int run(const char* format, const char* first, const char* second) {
  char command[3 * PATH_MAX];
  snprintf(command, sizeof command, format, first, second);
  return system(command);
}

static char root_of_step[PATH_MAX];

int slurm_spank_init_post_opt(spank_t spank, int count, char** words) {
  (void)count, (void)words;
  if (spank_context() != S_CTX_REMOTE || values[kImage][0] == 0) return 0;
  find_root(spank, root_of_step, sizeof root_of_step);
  if (run("unsquashfs -n -q -d '%s' '%s' > /dev/null", root_of_step, values[kImage]) == 0) return 0;
  slurm_error("the image %s cannot be unpacked", values[kImage]);
  return -1;
}

static int mount_there(const char* source, const char* destination) {
  char path[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s%s", root_of_step, destination);
  struct stat found;
  const int is_file = stat(source, &found) == 0 && S_ISREG(found.st_mode);
  if (run(is_file ? "mkdir -p \"$(dirname '%s')\" && touch '%s'" : "mkdir -p '%s' '%s'", path, path) != 0) return -1;
  return mount(source, path, NULL, MS_BIND | MS_REC, NULL);
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char** words) {
  (void)spank, (void)count, (void)words;
  if (values[kImage][0] == 0) return 0;
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
  static const char* const kOfTheNode[] = {"/proc", "/sys", "/dev", "/etc/hosts", "/etc/passwd"};
  for (size_t i = 0; i < sizeof kOfTheNode / sizeof *kOfTheNode; ++i)
    if (mount_there(kOfTheNode[i], kOfTheNode[i]) != 0) return -1;
  char* rest = NULL;
  for (char* pair = strtok_r(values[kMounts], ",", &rest); pair != NULL; pair = strtok_r(NULL, ",", &rest)) {
    char* destination = strchr(pair, ':');
    if (destination == NULL) return -1;
    *destination++ = 0;
    if (mount_there(pair, destination) != 0) return -1;
  }
  if (chroot(root_of_step) != 0 || chdir(values[kWorkFolder][0] != 0 ? values[kWorkFolder] : "/") != 0) return -1;
  return 0;
}

int slurm_spank_exit(spank_t spank, int count, char** words) {
  (void)spank, (void)count, (void)words;
  if (spank_context() == S_CTX_REMOTE && root_of_step[0] != 0) run("rm -rf --one-file-system '%s'%s", root_of_step, "");
  return 0;
}
