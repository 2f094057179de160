-- What is built, installed and packed: the executable, the library, the archive, the checkout.

local shell = require "shell"

local read = shell.read

local build = os.getenv("PONDER_BUILD") or "build"

describe("make install", function()
    -- -o: installs what is built already.
    local function install(prefix, directory, target)
        return shell.run(("umask 077; make -s -o %s/ponder -o %s/ponder.so %s B=%s PREFIX=%s "
            .. "DESTDIR=%s >$OUT 2>$ERR"):format(build, build, target, build,
            shell.quote(prefix), directory.path))
    end

    it("gives a ponder that works anywhere", function()
        local dir <close> = shell.directory { ["work/a.lua"] = [[
            print(type(require("ponder.search").run), type(require("prompts.tot")))]] }
        local r = install("/usr", dir, "install-program")
        assert.equal(0, r.status, r.err)
        r = shell.run(("cd %s/work && env -i ../usr/bin/ponder a.lua >$OUT 2>$ERR")
            :format(dir.path))
        assert.same({ status = 0, out = "function\ttable\n", err = "" }, r)
        for _, name in ipairs { "man/man1/ponder.1", "bash-completion/completions/ponder",
            "zsh/site-functions/_ponder", "fish/vendor_completions.d/ponder.fish",
            "ponder/stubs/ponder/search.lua", "doc/ponder/examples/game24.lua",
            "doc/ponder/examples/models/arithmetic.lua" } do
            assert.is_true(#dir:read("usr/share/" .. name) > 200, name)
        end
    end)

    it("is undone by make uninstall, in a directory with spaces, too", function()
        local dir <close> = shell.directory()
        local function list()
            return shell.run(("cd %s && find . -type f -perm 644 >$OUT"):format(dir.path)).out
        end
        for _, prefix in ipairs { "/usr", "/opt/a b" } do
            local r = install(prefix, dir, "install")
            assert.same({ 0, "" }, { r.status, r.err })
            assert.truthy(list():find("." .. prefix .. "/share/man/man1/ponder.1\n", 1, true))
            assert.truthy(list():find("." .. prefix .. "/lib/lua/5.4/ponder.so\n", 1, true))
            r = install(prefix, dir, "uninstall")
            assert.same({ 0, "" }, { r.status, r.err })
            assert.equal("", shell.run(("find %s -type f >$OUT"):format(dir.path)).out)
        end
    end)

    it("gives a stock lua5.4 the library: each of its modules loads, and a search runs", function()
        local dir <close> = shell.directory()
        local r = install("/usr", dir, "install-library")
        assert.equal(0, r.status, r.err)
        dir:write("each.lua", [[
            local count = 0
            local list <close> = io.popen("cd " .. ... .. " && find ponder -name '*.lua'")
            for path in list:lines() do
                require((path:gsub("%.lua$", ""):gsub("/", ".")))
                count = count + 1
            end
            assert(count > 150)
            print(package.loaded["ponder.cli.shared.main"],
                require("ponder.run.log.file") ~= nil)]])
        local lua = ("cd %s && LUA_PATH='%s/usr/share/lua/5.4/?.lua' "
            .. "LUA_CPATH='%s/usr/lib/lua/5.4/?.so' %s"):format(dir.path, dir.path, dir.path,
            shell.LUA)
        r = shell.run(lua .. " each.lua usr/share/lua/5.4 >$OUT 2>$ERR")
        assert.same({ status = 0, out = "nil\ttrue\n", err = "" }, r)
        r = shell.run(("%s %s/scripts/package/debian/tests/library >$OUT 2>$ERR"):format(lua,
            shell.root))
        assert.same({ status = 0, out = "ok\t1 -> 3 -> 6 -> 12 -> 24 -> 48 -> 96\n", err = "" }, r)
    end)
end)

describe("make dist", function()
    it("makes the same bytes in the checkout and in the unpacked tarball", function()
        local dir <close> = shell.directory()
        local function dist(where, to)
            local r = shell.run(("cd %s && make -s dist B=%s >$OUT 2>$ERR"):format(where, to))
            assert.same({ 0, "" }, { r.status, r.err })
            return assert(r.out:match("made +(%S+)\n"), r.out)
        end
        local first = dist(shell.root, dir.path .. "/1")
        local name = first:match("(ponder%-[%d.]+)%.tar%.gz$")
        -- Another user's umask and directory, another date of the files, and no git.
        assert.equal(0, shell.run(("cd %s && umask 077 && tar -xzf %s"):format(dir.path, first))
            .status)
        local second = dist(dir.path .. "/" .. name, dir.path .. "/2")
        assert.equal(0, shell.run(("cmp %s %s"):format(first, second)).status)
        local list = shell.run(("tar -tzf %s >$OUT"):format(first)).out
        for _, file in ipairs { "Makefile", "src/main.c", "lua/ponder/search.lua", ".ci/run",
            "scripts/package/debian/rules" } do
            assert.matches("\n" .. name .. "/" .. file .. "\n", "\n" .. list, 1, true)
        end
    end)
end)

describe("install.sh of make release", function()
    local program = "ponder-0.2.0-linux-" .. shell.output "uname -m"
    local dir, release

    setup(function()
        dir = shell.directory()
        release = dir.path .. "/package/release"
        program = program:gsub("0%.2%.0", (read("Makefile"):match("\nVERSION := (%S+)")))
        assert.equal(0, shell.run("mkdir -p " .. release).status)
        dir:write("package/release/" .. program, "#!/bin/sh\necho ponder 1\n")
        local r = shell.run(("make -s P=%s/package %s/install.sh >$OUT 2>$ERR"):format(dir.path,
            release))
        assert.same({ 0, "" }, { r.status, r.err })
    end)
    teardown(function() dir:__close() end)

    local function install(words, before)
        return shell.run(("cd %s && %s HOME=%s/home sh release/install.sh %s >$OUT 2>$ERR"):format(
            dir.path .. "/package", before or "", dir.path, words))
    end

    it("installs the program of its release, from a directory or a URL", function()
        local r = install("")
        assert.same({ 0, "" }, { r.status, r.err })
        assert.equal(("installed %s/home/.local/bin/ponder (ponder 1)\n"):format(dir.path), r.out)
        assert.equal(0, install(("file://%s '%s/a b'"):format(release, dir.path)).status)
        assert.equal("ponder 1\n", shell.run(("'%s/a b/bin/ponder' >$OUT"):format(dir.path)).out)
    end)

    it("refuses another file, another system, and what is not there", function()
        local target = dir.path .. "/other"
        for words, case in pairs {
            ["other " .. target] = { "mkdir -p other; echo x >>other/" .. program .. ";",
                "is not the file of this release: its SHA%-256 should be %x+\n$" },
            ["release " .. target] = { "PATH=$PWD/fake:$PATH",
                "does not run on darwin%-arm64; build from the source archive: README.md\n$" },
            ["file:///nowhere " .. target] = { "", "cannot download file:///nowhere/" },
            ["nowhere " .. target] = { "", "cannot read nowhere/" },
        } do
            dir:write("package/fake/uname",
                "#!/bin/sh\ntest $1 = -s && echo Darwin || echo arm64\n")
            shell.run("chmod 755 " .. dir.path .. "/package/fake/uname")
            local r = install(words, case[1])
            assert.same({ 1, "" }, { r.status, r.out })
            assert.matches("install.sh: [^\n]*" .. case[2], r.err)
        end
        assert.equal(1, shell.run("test -e " .. target).status)
    end)
end)

describe("the Containerfile", function()
    it("has a dozen lines, which make what exists", function()
        local makefile, lines = read("Makefile") .. read("scripts/package/package.mk"), 0
        for line in read("scripts/package/Containerfile"):gmatch("[^\n]+") do
            local word = line:match("^(%u+) %S")
            assert(word or line:find("^#"), line)
            assert(not word or ("FROM RUN WORKDIR COPY ENTRYPOINT"):find(word, 1, true), line)
            for targets in line:gmatch("%f[%w&]make ([^&]+)") do
                for name in (word == "RUN" and targets or ""):gmatch("%S+") do
                    assert(name:find("^-") or name:find("=") or makefile:find("\n"
                        .. name:gsub("^build/", "$B/") .. ":", 1, true), name)
                end
            end
            lines = lines + 1
        end
        assert.is_true(lines <= 14)
    end)
end)

describe("the packages", function()
    it("have the version of the Makefile and the changelog", function()
        local version = read("Makefile"):match("\nVERSION := (%S+)\n")
        assert.equal("ponder " .. version .. "\n", shell.ponder({ "--version" }).out)
        assert.equal(version, read("CHANGELOG.md"):match("\n## (%S+)"))
    end)

    it("need the build dependencies of the Makefile", function()
        local packages = read("Makefile"):match("\nRUN_PACKAGES +:= (.-[^\\])\n"):gsub("\\", "")
        local depends = read("scripts/package/debian/control"):match("\nBuild%-Depends: (.-)\n%u")
        for package in packages:gmatch("%S+") do
            if package ~= "gcc" and package ~= "libc6-dev" and package ~= "pkg-config" then
                assert.is_truthy(depends:find(package, 1, true), package)
            end
        end
    end)

    it("are tested with the README's policy", function()
        local dir <close> = shell.directory()
        local r = shell.run(("PATH=%s:$PATH TMPDIR=%s sh scripts/package/debian/tests/first-policy "
            .. ">$OUT 2>$ERR"):format(shell.executable:match("^(.*)/"), dir.path))
        assert.equal(0, r.status, r.err)
        assert.matches("\nAnswer: 97", r.out, 1, true)
    end)
end)

describe("the executable", function()
    it("needs only libcurl, the cryptography that comes with it, and libc", function()
        local needed = shell.run("objdump -p " .. shell.executable
            .. " | sed -n 's/^ *NEEDED *//p' | grep -vE '^lib(asan|ubsan)' | sort >$OUT").out
        for library in needed:gmatch("[^\n]+") do
            assert(library:find("^libcurl") or library:find("^libcrypto")
                or library:find("^libgnutls") or library:find("^libnettle")
                or library:find("^libc%.")
                or library:find("^libm%.") or library:find("^ld%-linux"), library)
        end
        assert.matches("libc%.so", needed)
    end)
end)

describe("the checkout", function()
    it("has only the expected files at its top level", function()
        local allowed = {}
        for name in ("CHANGELOG.md LICENSE Makefile README.md build docs lua prompts scripts spec "
            .. "src"):gmatch("%S+") do
            allowed[name] = true
        end
        for name in shell.run("git ls-files >$OUT 2>$ERR || ls >$OUT").out:gmatch("[^\n]+") do
            local top = name:match("^[^/]+")
            assert(allowed[top] or top:sub(1, 1) == ".", top)
        end
    end)
end)

describe("make deb and the like", function()
    it("install nothing, and say what they need", function()
        for _, target in ipairs { "deb", "deb-test", "rock", "static", "compilers", "fuzz" } do
            local checks = 0
            for line in shell.output("make -n " .. target):gmatch "[^\n]*install%-packages[^\n]*" do
                assert.matches("install%-packages %-%-say ", line)
                checks = checks + 1
            end
            assert.is_true(checks > 0, target)
        end
        local r = shell.run("sh .ci/install-packages --say libc6 no-such-package 2>$ERR")
        assert.equal(1, r.status)
        assert.matches("\n  apt%-get install [^\n]*%-recommends no%-such%-package\n$", r.err)
    end)
end)
