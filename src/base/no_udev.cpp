// The functions of libudev that a static hwloc refers to. Without an answer from udev_new() it leaves out the vendors of disks.
extern "C" {

struct udev;
struct udev_device;

udev* udev_new() { return nullptr; }
udev* udev_unref(udev*) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev*, const char*, const char*) { return nullptr; }
const char* udev_device_get_property_value(udev_device*, const char*) { return nullptr; }
udev_device* udev_device_unref(udev_device*) { return nullptr; }
}
