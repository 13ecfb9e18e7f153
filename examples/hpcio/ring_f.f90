!> The MPI calls of advect_f.f90; see ring.c.
module ring
    use, intrinsic :: iso_c_binding, only: c_double, c_int
    implicit none

    interface
        function ring_begin() bind(c) result(world)
            import
            integer(c_int) :: world
        end function

        subroutine ring_place(comm, rank, ranks) bind(c)
            import
            integer(c_int), value :: comm
            integer(c_int), intent(out) :: rank, ranks
        end subroutine

        subroutine ring_pass_on(comm, to, from, out, in, count) bind(c)
            import
            integer(c_int), value :: comm, to, from, count
            real(c_double), intent(in) :: out(*)
            real(c_double), intent(inout) :: in(*)
        end subroutine

        subroutine ring_abort(code) bind(c)
            import
            integer(c_int), value :: code
        end subroutine

        subroutine ring_end() bind(c)
        end subroutine
    end interface
end module
