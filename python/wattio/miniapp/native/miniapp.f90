! The mini-app in Fortran: the equations of wattio.miniapp (kernel.py, atmosphere.py), its blocks and its
! dumps, handed over to libwattio_io. Operations are grouped as there, so that numbers are the same.
!
!     miniapp CONFIG NX NY NZ SPACING_M STEPS OUTPUT_EVERY VARIABLES TOLD
!
! Prints a line of JSON with what each computing rank measured, the library's report, and TOLD, which is
! JSON text, as it was given. Fields are (z, y, x): z is the fastest axis.
program miniapp
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
    use mpi
    use wattio_io
    use wattio_io_mpi
    implicit none

    integer, parameter :: wp = c_double, long = c_int64_t, halo = 3, variables_max = 16
    integer, parameter :: r = 1, u = 2, v = 3, w = 4, t = 5, q = 6, components = 6
    real(wp), parameter :: gravity = 9.81_wp, theta = 300.0_wp, gas = 287.04_wp, heat = 1004.5_wp

    type, bind(c) :: timespec
        integer(c_long) :: seconds, nanoseconds
    end type

    interface
        integer(c_int) function clock_gettime(clock, found) bind(c)
            import :: c_int, timespec
            integer(c_int), value :: clock
            type(timespec), intent(out) :: found
        end function
    end interface

    type(wattio_io_session) :: io
    integer :: nx, ny, nz, gnx, gny, x0, y0, comm, rank, ranks, wide, along, level, code
    integer :: steps, every, variables, before(2), after(2)
    logical :: alone(2)
    real(wp) :: spacing_m
    character(32) :: names(variables_max)
    character(:), allocatable :: config, told
    real(wp), allocatable :: density0(:), stiffness(:), value(:, :, :), density(:, :, :)
    real(wp), allocatable :: pressure(:, :, :), flux(:, :, :, :)

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, code)
    if (command_argument_count() /= 9) call fail( &
        "usage: miniapp CONFIG NX NY NZ SPACING_M STEPS OUTPUT_EVERY VARIABLES TOLD")
    config = argument(1)
    gnx = number(argument(2))
    gny = number(argument(3))
    nz = number(argument(4))
    call read_real(argument(5), spacing_m)
    steps = number(argument(6))
    every = number(argument(7))
    call split(argument(8))
    told = argument(9)
    call wattio_io_open_mpi(MPI_COMM_WORLD, config, io, comm, code)
    if (code /= WATTIO_IO_OK) then
        ! All ranks know, and leave in order: launchers may lose what is printed before MPI_Abort.
        call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
        if (rank == 0) write (error_unit, "(2a)") "wattio: ", wattio_io_message()
        call MPI_Finalize(code)
        stop 1
    end if
    if (wattio_io_is_writer(io)) then
        call wattio_io_close(io, code)
        call check(code)
    else
        call arrange()
        call simulate()
    end if
    call MPI_Finalize(code)

contains

    function argument(which) result(text)
        integer, intent(in) :: which
        character(:), allocatable :: text
        integer :: length
        call get_command_argument(which, length=length)
        allocate (character(length) :: text)
        call get_command_argument(which, text)
    end function

    integer function number(text)
        character(*), intent(in) :: text
        read (text, *) number
    end function

    subroutine read_real(text, found)
        character(*), intent(in) :: text
        real(wp), intent(out) :: found
        read (text, *) found
    end subroutine

    ! Names with commas between them.
    subroutine split(text)
        character(*), intent(in) :: text
        integer :: begin, comma
        variables = 0
        begin = 1
        do while (begin <= len(text) .and. variables < variables_max)
            comma = index(text(begin:), ",")
            if (comma == 0) comma = len(text) - begin + 2
            variables = variables + 1
            names(variables) = text(begin:begin + comma - 2)
            begin = begin + comma
        end do
    end subroutine

    subroutine fail(what)
        character(*), intent(in) :: what
        integer :: ignored
        write (error_unit, "(2a)") "wattio: ", what
        call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
    end subroutine

    subroutine check(found)
        integer, intent(in) :: found
        if (found /= WATTIO_IO_OK .and. found /= WATTIO_IO_STEP_FAILED) &
            call fail(wattio_io_message())
    end subroutine

    ! The squarest arrangement, with more ranks in x (domain.arrange), and this rank's block.
    subroutine arrange()
        integer :: n, column, row
        call MPI_Comm_rank(comm, rank, code)
        call MPI_Comm_size(comm, ranks, code)
        along = 1
        n = 1
        do while (n * n <= ranks)
            if (mod(ranks, n) == 0) along = n
            n = n + 1
        end do
        wide = ranks / along
        column = rank / along
        row = mod(rank, along)
        x0 = part(gnx, wide, column)
        nx = part(gnx, wide, column + 1) - x0
        y0 = part(gny, along, row)
        ny = part(gny, along, row + 1) - y0
        alone = [wide == 1, along == 1]
        before = [mod(column + wide - 1, wide) * along + row, column * along + mod(row + along - 1, along)]
        after = [mod(column + 1, wide) * along + row, column * along + mod(row + 1, along)]
    end subroutine

    integer function part(cells, parts, which)
        integer, intent(in) :: cells, parts, which
        part = int(int(cells, long) * which / parts)
    end function

    ! The atmosphere at rest, with the halo's mirror images below and above (atmosphere.base).
    subroutine make_base()
        real(wp) :: gamma, exner, p
        integer :: z, depth
        gamma = heat / (heat - gas)
        allocate (density0(1 - halo:nz + halo), stiffness(1 - halo:nz + halo))
        do z = 1, nz
            exner = 1.0_wp - gravity * ((z - 0.5_wp) * spacing_m) / (heat * theta)
            p = 1e5_wp * exner**(heat / gas)
            density0(z) = p / (gas * theta * exner)
            stiffness(z) = gamma * p / (density0(z) * theta)
        end do
        do depth = 1, halo
            density0(1 - depth) = density0(depth)
            stiffness(1 - depth) = stiffness(depth)
            density0(nz + depth) = density0(nz + 1 - depth)
            stiffness(nz + depth) = stiffness(nz + 1 - depth)
        end do
    end subroutine

    ! The bubble at rest (model._put_bubble, atmosphere.bubble).
    subroutine put_bubble(state)
        real(wp), intent(inout) :: state(1 - halo:, 1 - halo:, 1 - halo:, :)
        real(wp) :: height, radius, fx, fy, fz, inside, shape, excess, found, vapour
        integer :: x, y, z
        height = nz * spacing_m
        radius = 0.2_wp * height
        do x = 1, nx
            fx = (x0 + x - 1 + (0.5_wp - gnx / 2.0_wp)) * spacing_m / radius
            do y = 1, ny
                fy = (y0 + y - 1 + (0.5_wp - gny / 2.0_wp)) * spacing_m / radius
                do z = 1, nz
                    fz = ((z - 0.5_wp) * spacing_m - 0.25_wp * height) / radius
                    inside = max(1.0_wp - ((fx * fx + fy * fy) + fz * fz), 0.0_wp)
                    shape = inside * inside
                    excess = 2.0_wp * shape
                    found = density0(z) * (theta / (theta + excess))
                    vapour = 1e-2_wp * (1.0_wp - (z - 0.5_wp) / nz) + 1e-3_wp * shape
                    state(z, y, x, r) = found - density0(z)
                    state(z, y, x, t) = found * excess
                    state(z, y, x, q) = found * vapour
                end do
            end do
        end do
    end subroutine

    ! What neighbours tell each other: first in x, then in y with what came in x (halo.Exchange).
    subroutine exchange(state)
        real(wp), intent(inout) :: state(1 - halo:, 1 - halo:, 1 - halo:, :)
        real(wp), allocatable :: low(:, :, :, :), high(:, :, :, :)
        low = state(1:nz, 1:ny, 1:halo, :)
        high = state(1:nz, 1:ny, nx - halo + 1:nx, :)
        call swap(low, high, 1)
        state(1:nz, 1:ny, nx + 1:nx + halo, :) = low
        state(1:nz, 1:ny, 1 - halo:0, :) = high
        low = state(1:nz, 1:halo, :, :)
        high = state(1:nz, ny - halo + 1:ny, :, :)
        call swap(low, high, 2)
        state(1:nz, ny + 1:ny + halo, :, :) = low
        state(1:nz, 1 - halo:0, :, :) = high
    end subroutine

    ! The low edge goes to the neighbour before, whose high edge comes for it; `low` becomes what lies
    ! beyond the high edge, `high` what lies before the low one.
    subroutine swap(low, high, axis)
        real(wp), intent(inout) :: low(:, :, :, :), high(:, :, :, :)
        integer, intent(in) :: axis
        real(wp), allocatable :: from_after(:, :, :, :), from_before(:, :, :, :)
        integer :: status(MPI_STATUS_SIZE)
        if (alone(axis)) return
        allocate (from_after, mold=low)
        allocate (from_before, mold=high)
        call MPI_Sendrecv(low, size(low), MPI_DOUBLE_PRECISION, before(axis), 2 * axis, from_after, &
                          size(low), MPI_DOUBLE_PRECISION, after(axis), 2 * axis, comm, status, code)
        call MPI_Sendrecv(high, size(high), MPI_DOUBLE_PRECISION, after(axis), 2 * axis + 1, &
                          from_before, size(high), MPI_DOUBLE_PRECISION, before(axis), &
                          2 * axis + 1, comm, status, code)
        low = from_after
        high = from_before
    end subroutine

    ! The halo, with the floor and the lid (kernel.mirror_at_ground_and_lid).
    subroutine fill_halo(state)
        real(wp), intent(inout) :: state(1 - halo:, 1 - halo:, 1 - halo:, :)
        integer :: depth, c
        call exchange(state)
        state(1, :, :, w) = 0.0_wp
        state(nz + 1, :, :, w) = 0.0_wp
        do depth = 1, halo
            do c = 1, components
                if (c == w) cycle
                state(1 - depth, :, :, c) = state(depth, :, :, c)
                state(nz + depth, :, :, c) = state(nz + 1 - depth, :, :, c)
            end do
            state(1 - depth, :, :, w) = -state(1 + depth, :, :, w)
            if (depth < halo) state(nz + 1 + depth, :, :, w) = -state(nz + 1 - depth, :, :, w)
        end do
    end subroutine

    ! The flux of a value through a face (kernel._upwind); `a` to `d` are cells around it.
    elemental real(wp) function upwind(flow, a, b, c, d)
        real(wp), intent(in) :: flow, a, b, c, d
        real(wp) :: slope
        upwind = 7.0_wp * (b + c)
        upwind = upwind - (a + d)
        upwind = upwind * flow
        slope = 3.0_wp * (c - b)
        slope = (d - a) - slope
        slope = slope * abs(flow)
        upwind = upwind + slope
        upwind = upwind * (1.0_wp / 12.0_wp)
    end function

    ! Fluxes of `value` through the faces of an axis (1 is x); those of momentum flow between two cells.
    subroutine fluxes(source, axis, across)
        real(wp), intent(in) :: source(1 - halo:, 1 - halo:, 1 - halo:, :)
        integer, intent(in) :: axis, across
        real(wp) :: flow
        integer :: x, y, z, dx, dy, dz, bx, by, bz
        call towards(axis, dx, dy, dz)
        call towards(across, bx, by, bz)
        do x = 1, nx + dx
            do y = 1, ny + dy
                do z = 1, nz + dz
                    flow = source(z, y, x, axis + 1)
                    if (across > 0) flow = 0.5_wp * (source(z - bz, y - by, x - bx, axis + 1) + flow)
                    flux(z, y, x, axis) = upwind( &
                        flow, value(z - 2 * dz, y - 2 * dy, x - 2 * dx), &
                        value(z - dz, y - dy, x - dx), value(z, y, x), value(z + dz, y + dy, x + dx))
                end do
            end do
        end do
    end subroutine

    ! One cell along an axis; none without one.
    subroutine towards(axis, dx, dy, dz)
        integer, intent(in) :: axis
        integer, intent(out) :: dx, dy, dz
        dx = merge(1, 0, axis == 1)
        dy = merge(1, 0, axis == 2)
        dz = merge(1, 0, axis == 3)
    end subroutine

    ! `target` becomes `state` after a share of the time step, changing as `source` says.
    subroutine change(state, source, target, factor)
        real(wp), intent(in) :: state(1 - halo:, 1 - halo:, 1 - halo:, :), factor
        real(wp), intent(inout) :: source(1 - halo:, 1 - halo:, 1 - halo:, :)
        real(wp), intent(inout) :: target(1 - halo:, 1 - halo:, 1 - halo:, :)
        real(wp) :: found, scale
        integer :: c, axis, across, x, y, z, bx, by, bz
        call fill_halo(source)
        scale = 1.0_wp / spacing_m
        do z = 1 - halo, nz + halo
            density(z, :, :) = source(z, :, :, r) + density0(z)
            pressure(z, :, :) = stiffness(z) * (source(z, :, :, t) + theta * source(z, :, :, r))
        end do
        do c = 1, components
            across = merge(c - 1, 0, c >= u .and. c <= w)
            call towards(across, bx, by, bz)
            if (c == r) then
                flux(1:, 1:, 1:, :) = source(1:nz + 1, 1:ny + 1, 1:nx + 1, u:w)
            else if (across == 0) then
                value = source(:, :, :, c) / density
            else
                value(1 - halo + bz:, 1 - halo + by:, 1 - halo + bx:) = &
                    source(1 - halo + bz:, 1 - halo + by:, 1 - halo + bx:, c) &
                    / (0.5_wp * (density(:nz + halo - bz, :ny + halo - by, :nx + halo - bx) &
                                 + density(1 - halo + bz:, 1 - halo + by:, 1 - halo + bx:)))
            end if
            do axis = 1, 3
                if (c /= r) call fluxes(source, axis, across)
            end do
            do x = 1, nx
                do y = 1, ny
                    do z = 1, nz
                        found = (flux(z, y, x, 1) - flux(z, y, x + 1, 1)) &
                                + (flux(z, y, x, 2) - flux(z, y + 1, x, 2))
                        found = found + (flux(z, y, x, 3) - flux(z + 1, y, x, 3))
                        if (across > 0) &
                            found = found - (pressure(z, y, x) - pressure(z - bz, y - by, x - bx))
                        found = found * scale
                        if (c == w) then
                            found = found - gravity * 0.5_wp &
                                    * (source(z - 1, y, x, r) + source(z, y, x, r))
                            if (z == 1) found = 0.0_wp
                        end if
                        target(z, y, x, c) = state(z, y, x, c) + found * factor
                    end do
                end do
            end do
        end do
    end subroutine

    ! A variable of a dump, in single precision (fields.py).
    subroutine write_field(state, name, field)
        real(wp), intent(in) :: state(1 - halo:, 1 - halo:, 1 - halo:, :)
        character(*), intent(in) :: name
        real(c_float), intent(out) :: field(:, :, :)
        integer :: axis, x, y, z, dx, dy, dz
        real(wp) :: rho, found
        axis = index("uvw", trim(name))
        call towards(axis, dx, dy, dz)
        do x = 1, nx
            do y = 1, ny
                do z = 1, nz
                    rho = density0(z) + state(z, y, x, r)
                    select case (name)
                    case ("u", "v", "w")
                        found = 0.5_wp * (state(z, y, x, axis + 1) &
                                          + state(z + dz, y + dy, x + dx, axis + 1)) / rho
                    case ("theta")
                        found = state(z, y, x, t) / rho
                    case ("moisture")
                        found = state(z, y, x, q) / rho
                    case default
                        found = stiffness(z) * (state(z, y, x, t) + theta * state(z, y, x, r))
                    end select
                    field(z, y, x) = real(found, c_float)
                end do
            end do
        end do
    end subroutine

    integer(long) function mixed(word)
        integer(long), intent(in) :: word
        mixed = word - 7046029254386353131_long
        mixed = ieor(mixed, shiftr(mixed, 30)) * (-4658895280553007687_long)
        mixed = ieor(mixed, shiftr(mixed, 27)) * (-7723592293110705685_long)
        mixed = ieor(mixed, shiftr(mixed, 31))
    end function

    ! Sums over the block (checks.of_block), and its part of the state's fingerprint.
    subroutine sums(state, found, mark)
        real(wp), intent(in) :: state(1 - halo:, 1 - halo:, 1 - halo:, :)
        real(wp), intent(out) :: found(6)
        integer(long), intent(out) :: mark
        real(wp) :: cell, rho, warmth
        integer(long) :: place
        integer :: x, y, z, c
        cell = spacing_m * spacing_m * spacing_m
        found = 0.0_wp
        found(6) = -huge(1.0_wp)
        mark = 0
        do x = 1, nx
            do y = 1, ny
                do z = 1, nz
                    rho = density0(z) + state(z, y, x, r)
                    warmth = state(z, y, x, t) / rho
                    found(1) = found(1) + cell * state(z, y, x, r)
                    found(2) = found(2) + cell * (rho - state(z, y, x, r))
                    found(3) = found(3) + cell * warmth
                    found(4) = found(4) + cell * warmth * ((z - 0.5_wp) * spacing_m)
                    found(5) = found(5) + cell * state(z, y, x, q)
                    found(6) = max(found(6), state(z, y, x, w) / rho)
                    do c = 1, components
                        place = (int(x0 + x - 1, long) * gny + y0 + y - 1) * nz + z - 1 &
                                + (c - 1_long) * gnx * gny * nz
                        mark = mark + mixed(ieor(transfer(state(z, y, x, c) + 0.0_wp, place), &
                                                 mixed(place)))
                    end do
                end do
            end do
        end do
    end subroutine

    ! UTC and monotonic nanoseconds.
    function instant() result(found)
        integer(long) :: found(2)
        type(timespec) :: one
        integer :: n
        do n = 1, 2
            if (clock_gettime(int(n - 1, c_int), one) /= 0) call fail("there is no clock")
            found(n) = one%seconds * 1000000000_long + one%nanoseconds
        end do
    end function

    subroutine simulate()
        real(wp), allocatable :: state(:, :, :, :), stage(:, :, :, :), next(:, :, :, :), own(:)
        real(c_float), pointer :: field(:, :, :)
        type(c_ptr) :: block
        integer(c_int64_t) :: id(variables_max)
        integer(long) :: marks(2), start(2), computed(2), finish(2)
        real(wp) :: step_s, began, done, asked, blocked, spoke, used, now
        integer :: step, n, dumps, dumped
        allocate (state(1 - halo:nz + halo, 1 - halo:ny + halo, 1 - halo:nx + halo, components))
        state = 0.0_wp
        stage = state
        next = state
        allocate (value(1 - halo:nz + halo, 1 - halo:ny + halo, 1 - halo:nx + halo))
        allocate (density, pressure, mold=value)
        value = 1.0_wp
        allocate (flux(nz + 1, ny + 1, nx + 1, 3))
        call make_base()
        call put_bubble(state)
        step_s = 0.8_wp * 0.5_wp * spacing_m / (heat / (heat - gas) * gas * theta)**0.5_wp
        do n = 1, variables
            call wattio_io_variable(io, names(n), WATTIO_IO_FLOAT32, [nz, ny, nx], id(n), code, &
                                    [nz, gny, gnx], [0, y0, x0])
            call check(code)
        end do
        dumps = 0
        if (every > 0) dumps = steps / every
        dumped = 0
        allocate (own(steps + 2 * dumps + 13))
        call sums(state, own(steps + 2 * dumps + 1:steps + 2 * dumps + 6), marks(1))
        call MPI_Barrier(comm, code)
        call cpu_time(used)
        spoke = MPI_Wtime()
        start = instant()
        do step = 1, steps
            began = MPI_Wtime()
            call change(state, state, stage, 1.0_wp / 3.0_wp * step_s)
            call change(state, stage, next, 1.0_wp / 2.0_wp * step_s)
            call change(state, next, stage, 1.0_wp * step_s)
            call move(state, stage)
            done = MPI_Wtime()
            own(step) = done - began
            if (every > 0) then
                if (mod(step, every) == 0) then
                    blocked = 0.0_wp
                    call fill_halo(state)
                    call wattio_io_begin_step(io, step, code)
                    call check(code)
                    do n = 1, variables
                        asked = MPI_Wtime()
                        call wattio_io_allocate(io, id(n), block, code)
                        call check(code)
                        blocked = blocked + MPI_Wtime() - asked
                        call c_f_pointer(block, field, [nz, ny, nx])
                        call write_field(state, names(n), field)
                    end do
                    asked = MPI_Wtime()
                    call wattio_io_end_step(io, code)
                    call check(code)
                    now = MPI_Wtime()
                    dumped = dumped + 1
                    own(steps + dumped) = now - done
                    own(steps + dumps + dumped) = blocked + now - asked
                end if
            end if
            if (rank == 0 .and. MPI_Wtime() - spoke > 0.5_wp) then
                spoke = MPI_Wtime()
                write (output_unit, "(a, i0)") "wattio_step ", step
                flush (output_unit)
            end if
        end do
        computed = instant()
        call wattio_io_close(io, code)
        call check(code)
        finish = instant()
        call cpu_time(now)
        own(size(own)) = now - used
        call sums(state, own(steps + 2 * dumps + 7:steps + 2 * dumps + 12), marks(2))
        call tell(own, dumps, marks, start, computed, finish, step_s)
    end subroutine

    ! The new state takes the old one's place, whose memory serves again.
    subroutine move(state, stage)
        real(wp), allocatable, intent(inout) :: state(:, :, :, :), stage(:, :, :, :)
        real(wp), allocatable :: old(:, :, :, :)
        call move_alloc(state, old)
        call move_alloc(stage, state)
        call move_alloc(old, stage)
    end subroutine

    ! Print what all ranks measured.
    subroutine tell(own, dumps, marks, start, computed, finish, step_s)
        real(wp), intent(in) :: own(:), step_s
        integer, intent(in) :: dumps
        integer(long), intent(in) :: marks(2), start(2), computed(2), finish(2)
        real(wp), allocatable :: all(:, :)
        integer(long) :: total(2)
        character(MPI_MAX_LIBRARY_VERSION_STRING) :: library
        character(MPI_MAX_PROCESSOR_NAME) :: host
        character(64) :: boot
        integer :: length, unit
        allocate (all(size(own), merge(ranks, 0, rank == 0)))
        call MPI_Gather(own, size(own), MPI_DOUBLE_PRECISION, all, size(own), MPI_DOUBLE_PRECISION, &
                        0, comm, code)
        call MPI_Reduce(marks, total, 2, MPI_INTEGER8, MPI_SUM, 0, comm, code)
        if (rank /= 0) return
        call MPI_Get_library_version(library, length, code)
        length = min(length, scan(library(:length) // ",", "," // new_line("a")) - 1)
        call MPI_Get_processor_name(host, unit, code)
        boot = ""
        open (newunit=unit, file="/proc/sys/kernel/random/boot_id", status="old", iostat=code)
        if (code == 0) read (unit, "(a)", iostat=code) boot
        call put('{"wattio_twin": 1, "host": "' // trim(host) // '", "boot": "' // trim(boot) // &
                 '", "mpi": "' // library(:length) // '", ')
        write (output_unit, "(a, i0, a, i0, a, es24.16, a)", advance="no") '"arrangement": [', &
            wide, ", ", along, '], "model_step_s": ', step_s, ", "
        call put_instant("start", start)
        call put_instant("computed", computed)
        call put_instant("end", finish)
        call put_lists("step_s", all(1:steps, :))
        call put_lists("dump_s", all(steps + 1:steps + dumps, :))
        call put_lists("blocked_s", all(steps + dumps + 1:steps + 2 * dumps, :))
        call put_lists("cpu_s", all(size(own):, :))
        call put_sums("before", all(steps + 2 * dumps + 1:steps + 2 * dumps + 6, :), total(1))
        call put_sums("after", all(steps + 2 * dumps + 7:steps + 2 * dumps + 12, :), total(2))
        call put('"report": ' // wattio_io_report() // ', "told": ' // told // "}")
        write (output_unit, "(a)") ""
        flush (output_unit)
    end subroutine

    subroutine put(text)
        character(*), intent(in) :: text
        write (output_unit, "(a)", advance="no") text
    end subroutine

    subroutine put_instant(key, found)
        character(*), intent(in) :: key
        integer(long), intent(in) :: found(2)
        write (output_unit, "(3a, i0, a, i0, a)", advance="no") '"', key, '": [', found(1), ", ", &
            found(2), "], "
    end subroutine

    ! Numbers of each rank, one list for each.
    subroutine put_lists(key, all)
        character(*), intent(in) :: key
        real(wp), intent(in) :: all(:, :)
        integer :: one, n
        call put('"' // key // '": [')
        do one = 1, size(all, 2)
            if (one > 1) call put(", ")
            call put("[")
            do n = 1, size(all, 1)
                if (n > 1) call put(", ")
                write (output_unit, "(es16.9)", advance="no") all(n, one)
            end do
            call put("]")
        end do
        call put("], ")
    end subroutine

    subroutine put_sums(key, all, mark)
        character(*), intent(in) :: key
        real(wp), intent(in) :: all(:, :)
        integer(long), intent(in) :: mark
        character(12), parameter :: keys(6) = [character(12) :: "mass_kg", "rest_mass_kg", &
                                               "warmth_k_m3", "warmth_k_m4", "water_kg", "wind_m_s_max"]
        integer :: n
        call put('"' // key // '": {')
        do n = 1, 6
            write (output_unit, "(3a, es24.16, a)", advance="no") '"', trim(keys(n)), '": ', &
                merge(maxval(all(n, :)), sum(all(n, :)), n == 6), ", "
        end do
        write (output_unit, "(a, z16.16, a)", advance="no") '"fingerprint": "', mark, '"}, '
    end subroutine
end program
