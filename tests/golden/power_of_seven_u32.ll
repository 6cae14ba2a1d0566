

define void @"atlas_power_of_seven_u32.all"(ptr noalias %arguments, i64 %begin, i64 %end) nounwind "prefer-vector-width"="256" {
entry:
  %v1 = getelementptr inbounds i64, ptr %arguments, i64 0
  %v2 = load ptr, ptr %v1, align 8
  %v3 = getelementptr inbounds i64, ptr %arguments, i64 1
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr inbounds i64, ptr %arguments, i64 3
  %v6 = load i64, ptr %v5, align 8
  %v7 = getelementptr inbounds i64, ptr %arguments, i64 4
  %v8 = load i64, ptr %v7, align 8
  %v9 = getelementptr inbounds i64, ptr %arguments, i64 2
  %v10 = load i64, ptr %v9, align 8
  br label %head11
head11:
  %i15 = phi i64 [ %begin, %entry ], [ %i16, %latch13 ]
  %v17 = icmp slt i64 %i15, %end
  br i1 %v17, label %body12, label %done14
body12:
  %v18 = getelementptr inbounds i32, ptr %v2, i64 %i15
  %v19 = load i32, ptr %v18, align 4, !llvm.access.group !0
  %v20 = icmp ult i32 %v19, 65536
  br i1 %v20, label %then21, label %else22
then21:
  br label %head24
head24:
  %i28 = phi i64 [ 0, %then21 ], [ %i29, %latch26 ]
  %c30 = phi i32 [ 1, %then21 ], [ %v41, %latch26 ]
  %c31 = phi i32 [ 7, %then21 ], [ %v42, %latch26 ]
  %v32 = icmp slt i64 %i28, 16
  br i1 %v32, label %body25, label %done27
body25:
  %v33 = trunc i64 %i28 to i32
  %v34 = icmp ult i32 %v33, 32
  %v35 = and i32 %v33, 31
  %v36 = lshr i32 %v19, %v35
  %v37 = select i1 %v34, i32 %v36, i32 0
  %v38 = and i32 %v37, 1
  %v39 = icmp ne i32 %v38, 0
  %v40 = mul i32 %c30, %c31
  %v41 = select i1 %v39, i32 %v40, i32 %c30
  %v42 = mul i32 %c31, %c31
  br label %latch26
latch26:
  %i29 = add nsw i64 %i28, 1
  br label %head24
done27:
  br label %done23
else22:
  br label %done23
done23:
  %v43 = phi i32 [ %c30, %done27 ], [ 0, %else22 ]
  %v44 = getelementptr inbounds i32, ptr %v4, i64 %i15
  store i32 %v43, ptr %v44, align 4, !llvm.access.group !0
  br label %latch13
latch13:
  %i16 = add nsw i64 %i15, 1
  br label %head11, !llvm.loop !4
done14:
  ret void
}

!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = !{!"llvm.loop.vectorize.followup_epilogue", !{!"llvm.loop.unroll.runtime.disable"}, !{!"llvm.loop.isvectorized", i32 1}}
!3 = !{!"llvm.loop.unroll.runtime.disable"}
!4 = distinct !{!4, !1, !2, !3}
