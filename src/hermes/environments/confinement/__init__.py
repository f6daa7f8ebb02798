"""Walls around untrusted code, made of what the Linux kernel has: nothing needs to be installed.

Outside: `opening` decides what can be had and starts a launcher; `line` talks to it. Inside:
`launcher` goes behind the walls (`walls`) and forks a keeper (`keeper`) for each command.

| Forbidden | by |
|---|---|
| files that were not granted, /etc/shadow, keys | mount namespace, Landlock, user of its own |
| writing outside the working folder and /tmp | read-only mounts, Landlock |
| network: TCP, UDP, raw, netlink, vsock | network namespace; always a seccomp filter on socket() |
| abstract sockets of the host | network namespace, Landlock scope |
| unix sockets in a granted folder | a supervisor connects, to sockets of the sandbox alone |
| our environment, memory, descriptors | empty environment, not dumpable, process namespace |
| seeing or ending other processes | process namespace; else Landlock scope and no /proc |
| ptrace, mounts, new namespaces, bpf, io_uring... | seccomp, no capabilities |
| setuid programs | no_new_privs, nosuid mounts, empty bounding set |
| too much memory, CPU time, file size, too many processes | cgroup, resource limits, a watch |
| too many files | a watch over what changed; then Landlock lets files be removed only |
"""
