-- process.run { isolate = true }: programs in namespaces of their own (src/isolate.c).

local shell = require "shell"

-- Runs code in the executable; `run(opts)` runs an isolated program and prints the result. A shell
-- script may come `before`, and the last word be of one that starts ponder.
local function run(code, flags, before)
    local dir <close> = shell.directory { ["data/x.txt"] = "some text", ["secret.txt"] = "secret",
        ["p.lua"] = [[
            local process, task = require "ponder.process", require "ponder.task"
            local function run(opts)
                opts.isolate = true
                local done, message, code = process.run(opts)
                print(done and (done.status or done.signal), done and done.stdout, message and code)
            end
            ]] .. code }
    local arguments = { "run", "--no-log" }
    table.move(flags or {}, 1, #(flags or {}), #arguments + 1, arguments)
    arguments[#arguments + 1] = "p.lua"
    local r = before and shell.run(("cd %s; exec >$OUT 2>$ERR; %s %s %s"):format(dir.path, before,
        shell.quote(shell.executable), table.concat(arguments, " ")))
        or dir:ponder(arguments, { env = { CANARY = "outside" } })
    assert.same({ 0, "" }, { r.status, r.err }, r.out)
    return r.out
end

-- Where util-linux can have them, so can ponder.
local has_namespaces = shell.run("unshare -UrmpfinuR / true 2>$ERR").status == 0
local it_isolates = has_namespaces and it or pending

describe("an isolated program", function()
    it("runs, or is refused with a code", function()
        local out = run "run { command = { 'true' } }"
        assert.equal(has_namespaces and "0\t\tnil\n" or "nil\tnil\tISOLATION\n", out)
    end)

    it_isolates("reads its input, and ends as it ends", function()
        assert.equal("3\thello\tnil\n", run [[
            run { command = "cat; exit 3", shell = true, input = "hello" }]])
        assert.equal("SIGSEGV\t\tnil\n", run([[
            run { command = "kill -SEGV $$", shell = true }
            os.execute "ls core* 2>/dev/null"]], nil, "ulimit -c unlimited; exec"))
        assert.equal("127\t\tnil\n", run [[run { command = { "no-such-program" } }]])
        assert.equal("nil\tnil\tTIMEOUT\n", run [[
            run { command = { "sleep", "100" }, timeout_ms = 300 }]])
    end)

    it_isolates("sees its directory, read-only, and no other file of ours", function()
        assert.equal("0\tsome text|refused|nothing|nothing|tmp\tnil\n", run [[
            run { cwd = "data", shell = true, command = "cat x.txt; exec 2>/dev/null;"
                .. "echo y > x.txt && printf '|written' || printf '|refused';"
                .. "cat ../secret.txt || printf '|nothing'; ls /home /root /etc/passwd >/dev/null"
                .. "&& printf '|files' || printf '|nothing'; echo z > /tmp/z && printf '|tmp'" }]])
        -- Also what only we may read. (Where we are root, not on every file system.)
        assert.equal("0\tsome text\tnil\n", run([[
            run { cwd = "data", command = { "cat", "x.txt" } }]], nil,
            "chmod 700 data; chmod 600 data/x.txt;"))
    end)

    it_isolates("does not see everything as its directory", function()
        assert.matches("^125\t", run "run { cwd = '/', command = { 'true' } }")
    end)

    it_isolates("is not started without what isolates it, nor with groups of ours", function()
        local r = shell.run(shell.quote(shell.executable)
            .. " --isolated 9 99 /not-there echo ran >$OUT 2>$ERR")
        assert.same({ 125, "", "ponder: cannot isolate the program: /not-there: No such file or "
            .. "directory\n" }, { r.status, r.out, r.err })
        if shell.output "id -u" == "0" then -- others cannot give them up
            assert.equal("0\tGroups:\t \n\tnil\n", run([[
                run { command = { "grep", "Groups", "/proc/self/status" } }]], nil,
                "exec setpriv --groups 12345"))
        end
    end)

    it_isolates("has no network, no other process and nothing of the environment", function()
        assert.equal("0\t1\n\tnil\n", run [[
            run { command = "ls /sys 2>/dev/null; grep -c : /proc/net/dev", shell = true }]])
        assert.equal("1\t0\n\tnil\n", run [[
            run { command = "ps ax 2>/dev/null | grep -c '[r]un --no-log'", shell = true }]])
        assert.equal("0\tx=,y\tnil\n", run [[
            run { command = "printf x=$CANARY,$GIVEN", shell = true, env = { GIVEN = "y" } }]])
        assert.equal("0\toutside\tnil\n", run [[
            run { command = "printf $CANARY", shell = true, env = { "CANARY" } }]])
    end)

    it_isolates("can change nothing of the machine, nor read its keys", function()
        local own = tonumber(shell.output "id -u")
        assert.equal(("0\t1000 %d 1\n\tnil\n"):format(own == 0 and 65534 or own), run [[
            run { command = "echo $(cat /proc/self/uid_map)", shell = true }]])
        for _, command in ipairs { "cd /proc && find acpi asound bus fs irq scsi sys -mindepth 1"
                .. " 2>/dev/null", "cd /proc && echo $(cat kallsyms kcore key-users keys kmsg"
                .. " latency_stats sched_debug timer_list timer_stats 2>/dev/null | head -c 1)",
            "find /proc/sys* /proc/irq /proc/self/ -maxdepth 1 -writable -type f",
            "for f in $(find /proc -maxdepth 2 -type f -perm /222 2>/dev/null); do"
                .. " (: >>$f) 2>/dev/null && echo $f; done; :",
            "for f in /dev/*; do chmod 600 $f || touch $f || mv $f /tmp; done 2>/dev/null && ls",
        } do
            assert.matches("^%d\t%s*\tnil\n$", run(("run { command = %q, shell = true }"):format(
                command)), command)
        end
        assert.equal("0\t0\n\tnil\n", run [[run { shell = true, command =
            "echo x >/dev/null && head -c 1 /dev/null | wc -c" }]])
        assert.equal("1\t0\n\tnil\n", run [[run { command = { "grep", "-vcE",
            "^[^ ]+ / | ro,nosuid,(nodev|noexec)", "/proc/self/mounts" } }]]) -- / is ours in memory
    end)

    it_isolates("gets no descriptor and no key that ponder was started with", function()
        local numbers = ({ x86_64 = "248, 250", aarch64 = "217, 219" })[shell.output "uname -m"]
        if not numbers or shell.output "command -v perl" == "" then
            return pending "no perl, or an unknown machine"
        end
        -- keyctl: 1 joins a new session keyring, 10 searches, 11 reads.
        local perl = ("my ($add, $ctl) = (%s); my ($t, $n, $s) = qw(user ponder-spec secret);\n")
            :format(numbers)
        local inside = perl .. "open my $f, '<&=9'; open my $g, '<&=3'; my $b = ' ' x 9;"
            .. "print <$f>, <$g>, syscall($ctl, 10, -3, $t, $n, 0), ' ',"
            .. "syscall($ctl, 11, $ENV{KEY} + 0, $b, 9), qq(\n)"
        local outside = perl .. "syscall($ctl, 1, 0); $ENV{KEY} = "
            .. "syscall($add, $t, $n, $s, 6, -3); die $! if $ENV{KEY} < 0; exec @ARGV"
        assert.equal("0\t-1 -1\n\tnil\n", run(([[run { env = { "KEY" },
            command = { "perl", "-e", %q } }]]):format(inside), nil,
            "exec 9<secret.txt 3<secret.txt; perl -e " .. shell.quote(outside)))
    end)

    it_isolates("reaches no process by a socket or FIFO of its directory", function()
        local perl = "perl -e 'use IO::Socket; print IO::Socket::UNIX->new(q(%s)) ? 1 : 0'; "
        assert.equal("0\t00\tnil\nsecret|", run(([[
            run { cwd = "data", shell = true, command = %q }]]):format(
            perl:format "s" .. perl:format "sub/s" .. "exec 2>/dev/null 3<>sub/pipe; "
            .. "dd if=pipe iflag=nonblock; echo leaked >&3; :"), nil, [[
            mkdir data/sub; mkfifo data/pipe data/sub/pipe
            exec perl -e 'use IO::Socket; use Fcntl; for my $d (qw(data data/sub)) {
                push @s, IO::Socket::UNIX->new(Local => "$d/s", Listen => 1) or die;
                chmod 0777, "$d/s", "$d/pipe";
                sysopen $f{$d}, "$d/pipe", O_RDWR | O_NONBLOCK or die }
            syswrite $f{data}, "secret"; system @ARGV; $e = $? >> 8;
            sysread $f{data}, $x, 9; sysread $f{"data/sub"}, $y, 9; print "$x|$y"; exit $e']]))
    end)

    it_isolates("gets variables that mean nothing before it is isolated", function()
        local dir <close> = shell.directory()
        assert.matches("set\tnil\n$", run(([[
            run { command = "printf ${LD_DEBUG_OUTPUT:+set}", shell = true, env = {
                LD_DEBUG = "files", LD_DEBUG_OUTPUT = "%s/escaped" } }]]):format(dir.path),
            { "--untrusted" }))
        assert.equal("", shell.run("ls >$OUT " .. dir.path).out)
    end)

    it_isolates("has limits of memory, time, files and processes", function()
        assert.equal("SIGKILL\t\tnil\n", run [[
            run { command = "ulimit -St 1; while :; do :; done", shell = true, timeout_ms = 1000 }]]
            :gsub("nil\tnil\tTIMEOUT", "SIGKILL\t\tnil"):gsub("SIGXCPU", "SIGKILL"))
        local limits = run [[run { max_memory_mb = 100, timeout_ms = 5500, command = { "sed",
            "-E", "s/ +[a-z]+ *$//; s/ +/ /g", "/proc/self/limits" } }]]
        for what, limit in pairs { ["address space"] = 100 << 20, ["cpu time"] = 6,
            ["file size"] = 64 << 20, ["open files"] = 256, ["core file size"] = 0 } do
            assert.matches(("\nMax %s %d %d\n"):format(what, limit, limit), limits)
        end
        assert.is_true(tonumber(limits:match "\nMax processes (%d+)") <= 256)
    end)

    it_isolates("ends with all that it has started", function()
        local mark = tostring(os.time()) .. "7"
        run(([[run { command = "sleep %s & sleep %s", shell = true, timeout_ms = 200 }]]):format(
            mark, mark))
        assert.equal("", shell.run("exec >$OUT; for i in $(seq 100); do pgrep -f '[s]leep " .. mark
            .. "' >/dev/null || exit 0; sleep 0.05; done; echo alive").out)
    end)

    it_isolates("is what an untrusted policy may run, and no other", function()
        assert.equal("0\t1000\n\tnil\n", run("run { command = { 'id', '-u' }, cwd = '/etc' }",
            { "--untrusted" }))
        assert.matches("needs isolate = true", run([[
            print(pcall(process.run, { command = { 'ls' } }))]], { "--untrusted" }))
        assert.equal("0\tx=\tnil\n", run([[
            run { command = "printf x=$CANARY", shell = true, env = { "CANARY" } }]],
            { "--untrusted" }))
    end)
end)
