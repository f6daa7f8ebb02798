"""Programs that isolate untrusted commands with the means of the Linux kernel.

They run as child processes of Hermes or on other hosts, and import only the standard library and
each other. In the process of Hermes, `sandboxing` starts them and talks to them.

- Sandbox: `launcher` isolates itself (`isolation`) and forks a supervisor for each command.
- Confined commands on this machine: `fork_server`. On other hosts: `one_command`.

| Forbidden | by |
|---|---|
| files that were not granted, /etc/shadow, keys | mount namespace, Landlock, separate user |
| writing outside the working folder and /tmp | read-only mounts, Landlock |
| network: TCP, UDP, raw, netlink, vsock | network namespace; always a seccomp filter on socket() |
| abstract sockets of the host | network namespace, Landlock scope |
| unix sockets in a granted folder | a supervisor connects, only to sockets of the sandbox |
| our environment, memory, descriptors | empty environment, not dumpable, process namespace |
| seeing or ending other processes | process namespace; else Landlock scope and no /proc |
| ptrace, mounts, new namespaces, bpf, io_uring... | seccomp, no capabilities |
| setuid programs | no_new_privs, nosuid mounts, empty bounding set |
| too much memory, CPU time, file size, too many processes | cgroup, resource limits, checks |
| too much data in files | checks of changed files; then Landlock allows only removal |
"""
