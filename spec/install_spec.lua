-- What is built and where it stands: the executable, the shared object, the checkout.

local shell = require "shell"

local build = os.getenv("PONDER_BUILD") or "build"

describe("make install", function()
    it("gives a ponder that works anywhere", function()
        local dir <close> = shell.folder { ["work/a.lua"] = [[
            print(type(require("ponder.search").run), type(require("prompts.tot")))]] }
        -- -o: what is built already is installed as it is.
        local r = shell.run(("make -s -o %s/ponder -o %s/ponder.so install B=%s PREFIX=/usr "
            .. "DESTDIR=%s >$OUT 2>$ERR"):format(build, build, build, dir.path))
        assert.equal(0, r.status, r.err)
        r = shell.run(("cd %s/work && env -i ../usr/bin/ponder a.lua >$OUT 2>$ERR")
            :format(dir.path))
        assert.same({ status = 0, out = "function\ttable\n", err = "" }, r)
        assert.equal(0, shell.run("test -f " .. dir.path .. "/usr/lib/lua/5.4/ponder.so").status)
    end)
end)

describe("the executable", function()
    it("needs libcurl, the GnuTLS that comes with it, and libc, and no more", function()
        local needed = shell.run("objdump -p " .. shell.executable
            .. " | sed -n 's/^ *NEEDED *//p' | grep -vE '^lib(asan|ubsan)' | sort >$OUT").out
        for library in needed:gmatch("[^\n]+") do
            assert(library:find("^libcurl") or library:find("^libgnutls") or library:find("^libc%.")
                or library:find("^libm%.") or library:find("^ld%-linux"), library)
        end
        assert.matches("libc%.so", needed)
    end)
end)

describe("the checkout", function()
    it("has nothing at its top but what it should", function()
        local allowed = {}
        for name in ("CHANGELOG.md LICENSE Makefile README.md build lua prompts scripts spec src")
            :gmatch("%S+") do
            allowed[name] = true
        end
        for name in shell.run("git ls-files >$OUT 2>$ERR || ls >$OUT").out:gmatch("[^\n]+") do
            local top = name:match("^[^/]+")
            assert(allowed[top] or top:sub(1, 1) == ".", top)
        end
    end)
end)
