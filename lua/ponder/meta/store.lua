---@meta

--- SQLite for logs and caches: a file with one writer and any number of readers.
---
---     local store = require "ponder.core.store"
---     local db <close> = assert(store.open("run.db", { mode = "create", schema = [[
---         CREATE TABLE calls (id INTEGER PRIMARY KEY, reply TEXT)]] }))
---     db:begin()
---     db:execute("INSERT INTO calls VALUES (?, ?)", 1, "a reply")
---     assert(db:commit())                    -- now it outlives this process
---     for id, reply in db:rows "SELECT id, reply FROM calls" do print(id, reply) end
---
--- Values: nil is NULL, booleans are 0 and 1, integers and floats are exact (NaN raises), a string
--- is TEXT if it is UTF-8 and BLOB if not, and either is read as a string. SQLite turns a value
--- into the type of its column where that loses nothing: 3.0 in an INTEGER column is read as 3.
---
--- Mistakes in a call raise, including errors in statements. Run-time failures return nil, a
--- message that begins with the path, and a code:
---
---     EXISTS, NOT_FOUND                 the file, when it is opened
---     NOT_A_LOG                         another kind of file, by its application_id
---     NEWER                             a higher version than opts.version
---     LOCKED                            another run is writing it
---     READ_ONLY                         no permission to write
---     DAMAGED                           truncated or inconsistent
---     FULL, IO                          the disk
---     MEMORY
---     CONSTRAINT, TOO_LARGE, SQL        a statement that fails with these values
---
--- The store remains usable after a failure: a failed commit rolls back, so the transaction can be
--- repeated. After a fork only the parent may use the store.
---@class ponder.core.store
---@field sqlite_version string "3.40.1"
local store = {}

---@class ponder.store.Options
---@field mode? "read"|"write"|"create" default "read"; "write": the file must exist; "create": it
---must not
---@field sync? "normal"|"full" default "normal": commits survive a crash of the process; "full":
---also a power failure
---@field lock? boolean default true: a file has one writer at a time, among all processes
---@field application_id? integer of the file: written by "create", checked otherwise
---@field version? integer likewise its user_version, which may be lower
---@field kind? string the name of such files in messages; default "run log"
---@field check? boolean "read": check for damage at once, as "write" does. Files of more than 64
---MiB are not checked: their damage is found on reading, with the code DAMAGED
---@field schema? string statements for a file with nothing in it: just created, or its creator was
---killed. "read" presents such a file as if they had been run; without them it is NOT_A_LOG

--- Opens a file. A refused file is not changed. While a writer has it open there are also FILE-wal
--- and FILE-shm, which belong to it; closing removes them, a crash leaves them.
---@param path string
---@param opts? ponder.store.Options wrong types raise
---@return ponder.store.Store?
---@return string? message
---@return string? code
function store.open(path, opts) end

--- SHA-256.
---@param text string any bytes
---@return string 64 hex digits in lower case
function store.sha256(text) end

--- Free space on a file system, for unprivileged processes.
---@param path string an existing file or directory on it
---@return integer? bytes
---@return string? message
---@return string? code
function store.free_bytes(path) end

--- Whether a file has a writer now, in this process or another. Locks it for a moment to find out.
---@param path string
---@return boolean? in_use
---@return string? message
---@return string? code
function store.in_use(path) end

---@class ponder.store.Store can be used as a to-be-closed variable
local Store = {}

--- Runs one statement; caches it as a prepared statement.
---@param sql string
---@param ... nil|boolean|number|string for its parameters, all of them
---@return integer? changes number of rows inserted, updated and deleted
---@return string? message
---@return string? code
function Store:execute(sql, ...) end

--- Runs any number of statements.
---@param sql string
---@return boolean? ok
---@return string? message
---@return string? code
function Store:script(sql) end

--- Begins a transaction with exclusive write access. Raises within a transaction.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:begin() end

--- Commits the transaction. A failure rolls it back.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:commit() end

--- Rolls the transaction back, if there is one.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:rollback() end

--- Iterates over rows. A failure raises. A loop ends at a row whose first value is NULL, so select
--- a column first that is never NULL.
---
---     for id, status in db:rows("SELECT id, status FROM calls WHERE id > ?", 10) do ... end
---@param sql string
---@param ... nil|boolean|number|string
---@return fun(): ... values of a row; nothing after the last
function Store:rows(sql, ...) end

--- Iterates over rows as tables by column name, without NULL columns.
---@param sql string
---@param ... nil|boolean|number|string
---@return fun(): table<string, integer|number|string>?
function Store:columns(sql, ...) end

--- The first row. A failure raises.
---@param sql string
---@param ... nil|boolean|number|string
---@return ... values; nothing if there is no row
function Store:row(sql, ...) end

--- Closes the store and rolls back an open transaction. May be called again. Open iterators raise
--- afterwards. If it fails (a full disk), the store is closed nevertheless, and commits are in
--- FILE-wal.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:close() end

return store
